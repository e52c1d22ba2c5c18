/** A prefix of some work that makes one batch, and what it leaves. */
interface PlannedCut<T> {
  readonly rest: readonly T[]
}

export interface OverlapOptions<T, C extends PlannedCut<T>> {
  readonly plan: (items: readonly T[]) => C
  /** NB: encodes before it first waits; its batches come back in order. */
  readonly apply: (cut: C) => Promise<unknown>
  readonly isStopping: () => boolean
}

/**
 * Works off `items` a cut at a time, with two in flight: the next one is planned and encoded while the kernel works on the
 * one before. Plans must not depend on the results of other cuts. A stop, or a
 * failure, ends it after those in flight.
 */
export async function inOverlappingCuts<T, C extends PlannedCut<T>>(
  items: readonly T[],
  { plan, apply, isStopping }: OverlapOptions<T, C>,
): Promise<void> {
  let newest: Promise<unknown> = Promise.resolve()
  try {
    for (let rest = items; rest.length > 0 && !isStopping();) {
      const before = newest
      const cut = plan(rest)
      rest = cut.rest
      newest = apply(cut)
      // The await below throws a failure, also one that comes earlier.
      newest.catch(() => undefined)
      await before
    }
  } finally {
    // After a failure too: nothing runs on behind it.
    await newest
  }
}
