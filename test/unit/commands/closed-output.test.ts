// The end of a command whose output cannot be written. On a full disk it ended with a stack.
import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { describe, it } from 'node:test'
import { endWithReaders } from '../../../src/commands/index.js'

/** Exit code and text on standard error, when an output fails with this error. */
function endOf(error: Error): readonly [code: number, text: string] {
  const ends: (readonly [number, string])[] = []
  let text = ''
  const output = new Writable()
  endWithReaders(
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    [output as unknown as NodeJS.WriteStream],
    (more) => void (text += more),
    (code) => void ends.push([code, text]),
  )
  output.emit('error', error)
  const [end] = ends
  assert.ok(end !== undefined)
  return end
}

describe('an output that cannot be written', () => {
  it('ends the command silently if its reader closed it', () => {
    assert.deepEqual(endOf(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })), [141, ''])
  })

  it('ends it with a sentence otherwise', () => {
    const error = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
    const text = 'viaduct: the output cannot be written: ENOSPC: no space left on device, write\n'
    assert.deepEqual(endOf(error), [1, text])
  })
})
