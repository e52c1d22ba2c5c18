import type { KernelError } from '../errors.js'

/** What became of one operation of a batch that was not applied. */
export interface OperationFailure {
  /** Index of the operation in the batch. */
  readonly index: number
  readonly error: KernelError
  /** True: the kernel's answer was lost (overrun, a malformed or truncated answer); the operation may have been applied. */
  readonly unknown: boolean
}

/** Accounts for every operation of a batch: applied unless named in `failures` (ascending by index). */
export interface BatchOutcome {
  readonly applied: number
  readonly failures: readonly OperationFailure[]
}
