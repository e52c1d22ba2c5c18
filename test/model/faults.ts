// What a test may inject into the model, and what it may ask afterwards.
import { constants } from 'node:os'
import { KernelError } from '../../src/errors.js'
import { nameFailures, type Operations, type OpWords, type RecordFailure } from '../../src/kernel/batch.js'
import type { BatchOutcome } from '../../src/kernel/outcome.js'
import type { Subject } from '../../src/kernel/request-queue.js'

/** `unknown`: applied, but the answer is lost. `lost`: not applied, and the answer is lost too. */
export type Fault = number | 'unknown' | 'lost' | undefined

export interface FaultPlan<Op> {
  /** Asked before each operation. A number is the errno of the refusal. */
  readonly fault?: (op: Op) => Fault
  /** Asked before each whole call ("apply", "dump", ...). A number is the errno with which it throws. */
  readonly callFault?: (call: string) => number | undefined
}

/** What a batch log remembers and how it applies a batch; common to the models of Ipvs and Routes. */
export class ModelBatches<Op extends { readonly op: string }> {
  /** Faults from now on; replace it at any time. */
  plan: FaultPlan<Op> = {}
  readonly #words: OpWords<Op>
  #ops: Op[] = []
  #batches = 0
  #closed = false

  constructor(words: OpWords<Op>) {
    this.#words = words
  }

  /** Batches since the last take(). */
  get batches(): number {
    return this.#batches
  }

  /** Operations since the last take(), refused ones included, in order. */
  get ops(): readonly Op[] {
    return this.#ops
  }

  /** Returns the operations so far and forgets them. */
  take(): readonly Op[] {
    const ops = this.#ops
    this.#ops = []
    this.#batches = 0
    return ops
  }

  close(): void {
    this.#closed = true
  }

  /** Throws what the plan says for a whole call, or EBADF after close(). */
  enter(call: string, subject: Subject = {}): void {
    const errno = this.#closed ? constants.errno.EBADF : this.plan.callFault?.(call)
    if (errno !== undefined) throw this.#refusal(call, errno, subject)
  }

  /** Applies in order, each on its own; `applyOne` returns an errno or 0. */
  apply(ops: Operations<Op>, applyOne: (op: Op) => number): BatchOutcome {
    this.enter('apply')
    if (ops.length > 0) this.#batches++
    const failures: RecordFailure[] = []
    for (let index = 0; index < ops.length; index++) {
      const op = ops.at(index)
      if (op === undefined) break
      this.#ops.push(op)
      const fault = this.plan.fault?.(op)
      const isLost = fault === 'unknown' || fault === 'lost'
      const errno = typeof fault === 'number' ? fault : fault === 'lost' ? 0 : applyOne(op)
      if (isLost) failures.push({ index, errno: constants.errno.ENOBUFS, unknown: true, text: '' })
      else if (errno !== 0) failures.push({ index, errno, unknown: false, text: '' })
    }
    return nameFailures(ops, failures, this.#words)
  }

  #refusal(operation: string, errno: number, subject: Subject): KernelError {
    return new KernelError({ errno, operation, subsystem: this.#words.subsystem, ...subject })
  }
}
