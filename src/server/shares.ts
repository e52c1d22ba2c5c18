// How many requests one client may have accepted, so that it does not fill the queue in which the kernel holds the connections of all.

/**
 * 100 per second, and 10 at once: more than a prober, a scraper or an operator's browser sends. A client that gets more replies, each on a
 * new connection, keeps the kernel's queue of new connections full, and probes of others wait at its end.
 */
const [leastPerSecond, leastAtOnce] = [100, 10] as const

/** The shares of several sources of requests: a token bucket for each. */
export class Shares {
  /** When the bucket of a source is full again, in milliseconds. Full buckets are not kept. */
  readonly #fullMs = new Map<string, number>()

  /** Number of sources whose buckets are kept. */
  get size(): number {
    return this.#fullMs.size
  }

  /**
   * Takes a turn from the share of the source. Returns false if none is left now. A share is 100 turns per second and 10 at once, or
   * `perSecond` of both if that is more: a load balancer may ask for all its targets at once.
   */
  take(source: string, nowMs: number, perSecond: number): boolean {
    const turnMs = 1000 / Math.max(leastPerSecond, perSecond)
    const fullMs = Math.max(nowMs, this.#fullMs.get(source) ?? nowMs) + turnMs
    if (fullMs - nowMs > Math.max(leastAtOnce, perSecond) * turnMs) return false
    this.#fullMs.set(source, fullMs)
    return true
  }

  /** Forgets the sources whose share is whole again. The others are few: each has had a turn within the time that fills its bucket. */
  forgetFull(nowMs: number): void {
    for (const [source, fullMs] of this.#fullMs) if (fullMs <= nowMs) this.#fullMs.delete(source)
  }
}
