// What the two tables of this room, virtual servers and VIPs, have in common.
import type { KernelError } from '../errors.js'

/** A batch for a prefix of what was to be planned; `rest` is for the next one. */
export interface Cut<Batch, T> {
  readonly batch: Batch
  readonly rest: readonly T[]
}

/** An operation that was not applied, and what it was for. */
export interface Failed<T> {
  readonly target: T
  readonly error: KernelError
}

/** What an outcome meant. */
export interface Confirmation<T> {
  readonly refusals: readonly Failed<T>[]
  /** Answers that were lost, or contradict what was acknowledged: their targets are stale, so reconcile soon. */
  readonly surprises: readonly Failed<T>[]
}
