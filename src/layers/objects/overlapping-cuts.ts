/** A planned batch for a prefix of some work. `rest`: the remaining work. */
interface PlannedCut<T> {
  readonly rest: readonly T[]
}

export interface OverlapOptions<T, C extends PlannedCut<T>> {
  readonly plan: (items: readonly T[]) => C
  /** NB: it must encode the cut before it first waits, and calls must be answered in order. */
  readonly apply: (cut: C) => Promise<unknown>
  readonly isStopping: () => boolean
}

/**
 * Works through `items` a cut at a time, with two cuts in flight: it plans and encodes the next cut while the kernel works on the
 * one before. Plans must not depend on the results of other cuts. After a stop or a failure it waits for the cuts in flight and
 * ends.
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
      // The await below throws this failure too.
      newest.catch(() => undefined)
      await before
    }
  } finally {
    // Also after a failure: no cut may still run when this function ends.
    await newest
  }
}
