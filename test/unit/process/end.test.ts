// Shutdown in order, and by uncaught errors.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { describe, it } from 'node:test'
import { endInOrder, uncaughtError } from '../../../src/process/index.js'
import { ManualClock, settle } from '../../support/manual-clock.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

describe('endInOrder', () => {
  const failures: readonly { readonly name: string; readonly stop: () => Promise<void> }[] = [
    { name: 'rejects', stop: async () => await Promise.reject(new Error('servers: no')) },
    {
      name: 'throws',
      stop: () => {
        throw new Error('servers: no')
      },
    },
  ]
  for (const { name, stop } of failures) {
    it(`stops all parts one after the other when one ${name}`, async () => {
      const log = new MemoryLog()
      const steps: string[] = []
      const part = (word: string) => ({
        part: word,
        stop: async () => {
          steps.push(`${word} stops`)
          await settle()
          steps.push(`${word} has stopped`)
        },
      })
      const absent = { part: 'absent', stop: () => undefined }
      const parts = [part('source'), absent, part('synchronizer')]
      assert.equal(await endInOrder([{ part: 'servers', stop }, ...parts], log), false)
      assert.deepEqual(steps, [
        'source stops',
        'source has stopped',
        'synchronizer stops',
        'synchronizer has stopped',
      ])
      const [line, ...others] = log.lines
      assert.equal(line?.message, 'Part of the agent failed to stop')
      assert.deepEqual(
        [line.fields.part, String(line.fields.err), others],
        ['servers', 'Error: servers: no', []],
      )
      assert.equal(await endInOrder(parts, log), true)
    })
  }
})

/** A process that records only its exit. */
class EndingProcess extends EventEmitter {
  exitCode: number | undefined
  readonly exits: number[] = []

  exit(code: number): void {
    this.exits.push(code)
  }
}

describe('an uncaught error', () => {
  it('ends the process in order, at the latest after 10 s', async () => {
    const [process, clock, log] = [new EndingProcess(), new ManualClock(), new MemoryLog()]
    const uncaught = uncaughtError({ log, process, clock })
    assert.equal(clock.pending, 0)
    process.emit('uncaughtException', new Error('unexpected'))
    await assert.rejects(uncaught, { message: 'unexpected' })
    assert.equal(log.find('error', 'Uncaught error: the agent ends').length, 1)
    assert.equal(process.listenerCount('uncaughtException'), 0, 'a second error ends the process at once')
    await clock.advance(9999)
    assert.deepEqual([process.exitCode, process.exits], [1, []])
    await clock.advance(1)
    assert.deepEqual(process.exits, [1])
  })
})
