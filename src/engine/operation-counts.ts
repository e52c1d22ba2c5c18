import type { BatchOutcome } from '../kernel/index.js'
import type { FamilyMetrics } from '../metrics/index.js'

/** A batch that was packed, and counts its operations itself. */
interface PackedOps<Op> {
  readonly length: number
  readonly counts: ReadonlyMap<Op, number>
  at(index: number): { readonly op: Op } | undefined
}

/** The operations of one batch. */
export type CountedOps<Op> = PackedOps<Op> | readonly { readonly op: Op }[]

interface Count {
  applied: number
  failed: number
}

/** How many operations of each kind the kernel applied, and how many it refused or did not answer. */
export class OperationCounts<Op extends string> {
  readonly #counts = new Map<Op, Count>()

  add(ops: CountedOps<Op>, outcome: BatchOutcome): void {
    for (const [op, number] of 'counts' in ops ? ops.counts : countsOf(ops))
      if (number > 0) this.#countOf(op).applied += number
    for (const { index } of outcome.failures) {
      const op = ops.at(index)?.op
      if (op === undefined) continue
      const count = this.#countOf(op)
      count.applied--
      count.failed++
    }
  }

  /** Adds them to the metrics. Returns how many failed. */
  report(metrics: FamilyMetrics): number {
    let failed = 0
    for (const [op, count] of this.#counts) {
      const bound = metrics.operation(op)
      bound.applied.inc(count.applied)
      bound.failed.inc(count.failed)
      failed += count.failed
    }
    return failed
  }

  /** How many of each kind were applied. */
  get applied(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].map(([op, { applied }]) => [op, applied]))
  }

  #countOf(op: Op): Count {
    let count = this.#counts.get(op)
    if (count === undefined) {
      count = { applied: 0, failed: 0 }
      this.#counts.set(op, count)
    }
    return count
  }
}

function countsOf<Op>(ops: readonly { readonly op: Op }[]): ReadonlyMap<Op, number> {
  const counts = new Map<Op, number>()
  for (const { op } of ops) counts.set(op, (counts.get(op) ?? 0) + 1)
  return counts
}
