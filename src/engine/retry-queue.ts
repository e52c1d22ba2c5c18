import type { Clock } from '../clock.js'

interface Retry {
  readonly delayMs: number
  readonly dueMs: number
}

/** Times of the next attempt of what failed: exponential back-off for each object by itself. */
export class RetryQueue<T> {
  readonly #clock: Clock
  readonly #firstDelayMs: number
  readonly #maxDelayMs: number
  readonly #retries = new Map<T, Retry>()

  constructor(clock: Clock, delays: { readonly firstMs: number; readonly maxMs: number }) {
    this.#clock = clock
    this.#firstDelayMs = delays.firstMs
    this.#maxDelayMs = delays.maxMs
  }

  /**
   * The object failed, again or for the first time. False: something else brought the attempt about before it was due, and it does
   * not count.
   */
  fail(item: T): boolean {
    const now = this.#clock.now()
    const former = this.#retries.get(item)
    if (former !== undefined && former.dueMs > now) return false
    const delayMs = former === undefined ? this.#firstDelayMs : Math.min(former.delayMs * 2, this.#maxDelayMs)
    this.#retries.set(item, { delayMs, dueMs: now + delayMs })
    return true
  }

  /** The object is well, or gone. */
  settle(item: T): void {
    this.#retries.delete(item)
  }

  /** Everything that failed. */
  items(): readonly T[] {
    return [...this.#retries.keys()]
  }

  has(item: T): boolean {
    return this.#retries.has(item)
  }

  /** What is due now. It stays in the queue, with its delay, until it settles or fails again. */
  due(): readonly T[] {
    const now = this.#clock.now()
    return [...this.#retries].filter(([, { dueMs }]) => dueMs <= now).map(([item]) => item)
  }

  /** Milliseconds until something is due; undefined: nothing failed. */
  nextInMs(): number | undefined {
    if (this.#retries.size === 0) return undefined
    let next = Infinity
    for (const { dueMs } of this.#retries.values()) next = Math.min(next, dueMs)
    return Math.max(0, next - this.#clock.now())
  }
}
