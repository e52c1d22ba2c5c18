import type { BatchOutcome } from '../kernel/index.js'
import type { FamilyMetrics } from '../metrics/index.js'

/** A batch that was packed, and counts its operations itself. */
interface PackedOps<Op extends { readonly op: string }> {
  readonly length: number
  readonly counts: ReadonlyMap<Op['op'], number>
  at(index: number): Op | undefined
}

/** The operations of one batch. */
export type CountedOps<Op extends { readonly op: string }> = PackedOps<Op> | readonly Op[]

/** Operations of one name. */
export interface OperationCount {
  /** The kernel took them. */
  readonly applied: number
  /** The kernel refused them. */
  readonly refused: number
  /** No answer came: the kernel may have taken them. */
  readonly unanswered: number
}

/** Numbers of operations by name, and how the kernel answered them. */
export class OperationCounts {
  readonly #counts = new Map<string, { -readonly [key in keyof OperationCount]: number }>()

  add<Op extends { readonly op: string }>(ops: CountedOps<Op>, outcome: BatchOutcome): void {
    for (const [op, number] of 'counts' in ops ? ops.counts : countsOf(ops))
      if (number > 0) this.#countOf(op).applied += number
    for (const { index, unknown } of outcome.failures) {
      const op = ops.at(index)?.op
      if (op === undefined) continue
      const count = this.#countOf(op)
      count.applied--
      if (unknown) count.unanswered++
      else count.refused++
    }
  }

  /** Number of operations that the kernel did not take. */
  get failed(): number {
    let failed = 0
    for (const { refused, unanswered } of this.#counts.values()) failed += refused + unanswered
    return failed
  }

  /** Adds them to the metrics. */
  report(metrics: FamilyMetrics): void {
    for (const [op, { applied, refused, unanswered }] of this.#counts) {
      const bound = metrics.operation(op)
      bound.applied.inc(applied)
      bound.failed.inc(refused + unanswered)
    }
  }

  /** Counts by operation. */
  get all(): Readonly<Record<string, OperationCount>> {
    return Object.fromEntries(this.#counts)
  }

  #countOf(op: string): { -readonly [key in keyof OperationCount]: number } {
    let count = this.#counts.get(op)
    if (count === undefined) {
      count = { applied: 0, refused: 0, unanswered: 0 }
      this.#counts.set(op, count)
    }
    return count
  }
}

function countsOf(ops: readonly { readonly op: string }[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { op } of ops) counts.set(op, (counts.get(op) ?? 0) + 1)
  return counts
}
