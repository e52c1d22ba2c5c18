import type { KernelError } from '../errors.js'

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
