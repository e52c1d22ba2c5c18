// Turns the failures of a batch's records into failures of its operations.
import type { IpFamily } from '../address.js'
import { KernelError, type KernelErrorFields } from '../errors.js'
import { failureLayout } from './binding/layout.js'
import { RecordTable } from './records.js'

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

/** The failure of one operation of a batch. */
export interface OperationFailure {
  /** Index of the operation in the batch. */
  readonly index: number
  readonly error: KernelError
  /** True: the kernel's answer was lost (overrun, a malformed or truncated answer); the operation may have been applied. */
  readonly unknown: boolean
}

/** Accounts for every operation of a batch. An operation without an entry in `failures` (ascending by index) is applied. */
export interface BatchOutcome {
  readonly applied: number
  readonly failures: readonly OperationFailure[]
}

class FailureCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, failureLayout)
  }

  failure(index: number, text: string): RecordFailure {
    const offset = this.u32(index, failureLayout.textOffset)
    return {
      index: this.u32(index, failureLayout.index),
      errno: this.i32(index, failureLayout.code),
      unknown: this.u8(index, failureLayout.unknown) !== 0,
      text: text.slice(offset, offset + this.u32(index, failureLayout.textLength)),
    }
  }
}

/** The failures of a batch as objects: `failures` and `text` of a RawOutcome. */
export function decodeFailures(outcome: {
  readonly failures: Uint8Array
  readonly text: string
}): readonly RecordFailure[] {
  const cursor = new FailureCursor(outcome.failures)
  return Array.from({ length: cursor.length }, (_, index) => cursor.failure(index, outcome.text))
}
