// Common parts of the contract suites.
import assert from 'node:assert/strict'
import { parseIpAddress, type IpAddress } from '../../src/address.js'
import { KernelError } from '../../src/errors.js'
import type { BatchOutcome } from '../../src/kernel/index.js'

/** A canonical address of a test. */
export function ip(text: string): IpAddress {
  const address = parseIpAddress(text)
  assert.ok(address !== undefined, `${text} is no address`)
  return address
}

/** Expects the call to reject with a KernelError of this code. */
export async function rejectsWith(call: Promise<unknown>, code: string): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof KernelError, String(error))
    assert.equal(error.code, code)
    return true
  })
}

/** `index code` of each failure. */
export function failures(outcome: BatchOutcome): readonly string[] {
  return outcome.failures.map(({ index, error }) => `${index} ${error.code}`)
}

/** Applies the operations and expects no failure. */
export async function applyAll<Op>(
  kernel: { apply(ops: readonly Op[]): Promise<BatchOutcome> },
  ops: readonly NoInfer<Op>[],
): Promise<void> {
  const outcome = await kernel.apply(ops)
  assert.deepEqual(failures(outcome), [])
  assert.equal(outcome.applied, ops.length)
}

/** Applies one operation and expects it to fail with this code. */
export async function refusedWith<Op>(
  kernel: { apply(ops: readonly Op[]): Promise<BatchOutcome> },
  op: NoInfer<Op>,
  code: string,
): Promise<void> {
  const outcome = await kernel.apply([op])
  assert.deepEqual(failures(outcome), [`0 ${code}`])
  assert.equal(outcome.applied, 0)
}
