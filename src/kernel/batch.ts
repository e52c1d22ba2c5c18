// Turns the failures of a batch's records into failures of its operations.
import type { IpFamily } from '../address.js'
import { KernelError, type KernelErrorFields } from '../errors.js'
import type { BatchOutcome, OperationFailure } from './outcome.js'

/** Describes a subsystem's operations in errors. */
export interface OpWords<Op> {
  readonly subsystem: KernelErrorFields['subsystem']
  readonly describe: (op: Op) => string
  readonly familyOf: (op: Op) => IpFamily | 'none'
}

/** The failure of one operation. */
export interface RecordFailure {
  readonly index: number
  readonly errno: number
  readonly unknown: boolean
  /** Empty: the kernel sent no message. */
  readonly text: string
}

/** Operations by index: an array or a packed batch. */
export interface Operations<Op> {
  readonly length: number
  at(index: number): Op | undefined
}

/** Names the object in each failure. */
export function nameFailures<Op extends { readonly op: string }>(
  ops: Operations<Op>,
  failures: readonly RecordFailure[],
  words: OpWords<Op>,
): BatchOutcome {
  const named: OperationFailure[] = []
  for (const { index, errno, unknown, text } of failures) {
    const op = ops.at(index)
    if (op === undefined) throw new RangeError(`failure of operation ${index} in a batch of ${ops.length}`)
    const error = new KernelError({
      errno,
      subsystem: words.subsystem,
      operation: op.op,
      family: words.familyOf(op),
      object: words.describe(op),
      ...(text === '' ? {} : { extack: text }),
    })
    named.push({ index, error, unknown })
  }
  return { applied: ops.length - named.length, failures: named }
}
