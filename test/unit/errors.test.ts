import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { asRefusal, isPermanent, KernelError, orRefusal } from '../../src/errors.js'

const busy = new KernelError({
  errno: constants.errno.EAGAIN,
  subsystem: 'xtables',
  operation: 'read a table',
})
const absent = new KernelError({ errno: constants.errno.ENOENT, subsystem: 'ipset', operation: 'list sets' })
const bug = new TypeError('undefined is not a function')

function refuse(error: unknown): () => Promise<number> {
  return async () => {
    throw error
  }
}

describe('orRefusal', () => {
  it('resolves with the answer', async () => {
    assert.equal(await orRefusal(async () => 7), 7)
  })

  const rows = [
    ['each KernelError by default', busy, undefined],
    ['a KernelError that is expected', absent, isPermanent],
  ] as const
  for (const [what, error, isExpected] of rows) {
    it(`resolves with ${what}`, async () => {
      assert.equal(await orRefusal(refuse(error), isExpected), error)
    })
  }

  const thrown = [
    ['a KernelError that is not expected', busy, isPermanent],
    ['any other error', bug, undefined],
    ['any other error, without asking whether it is expected', bug, isPermanent],
  ] as const
  for (const [what, error, isExpected] of thrown) {
    it(`rejects with ${what}`, async () => {
      await assert.rejects(orRefusal(refuse(error), isExpected), (rejected) => rejected === error)
      assert.throws(
        () => asRefusal(error, isExpected),
        (seen) => seen === error,
      )
    })
  }
})
