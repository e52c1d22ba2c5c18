import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { describe, it } from 'node:test'
import { runDoctor } from '../../../src/agent/index.js'

describe('viaduct doctor', () => {
  // The process ends by exit() when the command has resolved.
  it('resolves when its output is written', async () => {
    const written: string[] = []
    const out = async (text: string): Promise<void> => {
      await setImmediate()
      written.push(text)
    }
    const code = await runDoctor(['--version', '--socket=/no/socket'], {
      out,
      err: assert.fail,
      environment: {},
    })
    assert.equal(code, 0)
    assert.match(written.join(''), /^viaduct \d/u)
  })
})
