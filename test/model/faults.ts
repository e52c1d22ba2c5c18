// Faults that tests inject into the model, and the log of operations that tests read.
import { constants } from 'node:os'
import { KernelError } from '../../src/errors.js'
import {
  nameFailures,
  type Operations,
  type OpWords,
  type RecordFailure,
  type BatchOutcome,
} from '../../src/kernel/batch.js'
import type { Subject } from '../../src/kernel/request-queue.js'

/** `unknown`: applied, but the reply is lost. `lost`: not applied, and the reply is lost. */
export type Fault = number | 'unknown' | 'lost' | undefined

export interface FaultPlan<Op> {
  /** Called before each operation. A number is the errno of the refusal. */
  readonly fault?: (op: Op) => Fault
  /** Called before each call ("apply", "dump", ...). A number is the errno with which the call throws. */
  readonly callFault?: (call: string) => number | undefined
}

/** Applies batches and logs their operations. The models of Ipvs and Routes share it. */
export class ModelBatches<Op extends { readonly op: string }> {
  /** The current faults. Tests may replace them at any time. */
  plan: FaultPlan<Op> = {}
  readonly #words: OpWords<Op>
  #ops: Op[] = []
  #batches = 0
  #closed = false

  constructor(words: OpWords<Op>) {
    this.#words = words
  }

  /** Number of batches since the last take(). */
  get batches(): number {
    return this.#batches
  }

  /** Operations since the last take(), in order, including refused ones. */
  get ops(): readonly Op[] {
    return this.#ops
  }

  /** Returns the operations and clears the log. */
  take(): readonly Op[] {
    const ops = this.#ops
    this.#ops = []
    this.#batches = 0
    return ops
  }

  close(): void {
    this.#closed = true
  }

  /** Throws the planned fault of a call, or EBADF after close(). */
  enter(call: string, subject: Subject = {}): void {
    const errno = this.#closed ? constants.errno.EBADF : this.plan.callFault?.(call)
    if (errno !== undefined) throw this.#refusal(call, errno, subject)
  }

  /** Applies each operation by itself, in order. `applyOne` returns an errno or 0. */
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
