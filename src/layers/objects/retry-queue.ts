import { Backoff, type Clock } from '../../clock.js'
import type { Retry } from '../../engine/index.js'

interface Attempt {
  readonly backoff: Backoff
  readonly dueMs: number
}

const delays = { shortestMs: 1000, longestMs: 30_000 }

/** Times of the next attempt for objects that failed. Each object has its own back-off, from one second to half a minute. */
export class RetryQueue<T> {
  readonly #clock: Clock
  readonly #retries = new Map<T, Attempt>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The object failed, again or for the first time. False: another cause made the attempt before it was due, and the failure does
   * not count.
   */
  fail(item: T): boolean {
    const now = this.#clock.now()
    const former = this.#retries.get(item)
    if (former !== undefined && former.dueMs > now) return false
    const backoff = former?.backoff ?? new Backoff(delays)
    this.#retries.set(item, { backoff, dueMs: now + backoff.next() })
    return true
  }

  /** The object recovered, or was removed. */
  settle(item: T): void {
    this.#retries.delete(item)
  }

  /** A view of the queue for one object. */
  of(item: T): Retry {
    return { fail: () => void this.fail(item), settle: () => this.settle(item) }
  }

  /** All objects that failed. */
  items(): readonly T[] {
    return [...this.#retries.keys()]
  }

  has(item: T): boolean {
    return this.#retries.has(item)
  }

  /** The objects that are due now. Each stays in the queue, with its delay, until it settles or fails again. */
  due(): readonly T[] {
    const now = this.#clock.now()
    return [...this.#retries].filter(([, { dueMs }]) => dueMs <= now).map(([item]) => item)
  }

  /** Milliseconds until an object is due; undefined: none failed. */
  nextInMs(): number | undefined {
    if (this.#retries.size === 0) return undefined
    let next = Infinity
    for (const { dueMs } of this.#retries.values()) next = Math.min(next, dueMs)
    return Math.max(0, next - this.#clock.now())
  }
}
