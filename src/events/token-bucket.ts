/** Limits requests as client-go does: `burst` at once, and `qps` per second on average. */
export interface RateLimit {
  /** Negative: no limit. */
  readonly qps: number
  readonly burst: number
}

// The longest delay of a timer of Node.
const longestWaitMs = 2 ** 31 - 1

export class TokenBucket {
  readonly #limit: RateLimit
  readonly #now: () => number
  #tokens: number
  #countedMs: number

  /** `now`: milliseconds; never goes back. */
  constructor(limit: RateLimit, now: () => number) {
    this.#limit = limit
    this.#now = now
    this.#tokens = limit.burst
    this.#countedMs = now()
  }

  /** Takes a token, and returns the milliseconds until it may be used. */
  take(): number {
    const { qps, burst } = this.#limit
    if (qps < 0) return 0
    const nowMs = this.#now()
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#countedMs) * qps) / 1000)
    this.#countedMs = nowMs
    this.#tokens -= 1
    return Math.min(Math.max(0, (-this.#tokens * 1000) / qps), longestWaitMs)
  }
}
