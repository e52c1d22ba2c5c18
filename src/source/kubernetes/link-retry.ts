import { type Clock, Backoff } from '../../clock.js'
import type { Outage } from './outage.js'

/** The reason for which a link tries again. It decides the delay. */
export type RetryReason =
  /** A steady watch ended in good order, or pages replace a refused streamed list. */
  | 'none'
  /** No connection, or a connection that broke before an answer or after a steady watch. */
  | 'away'
  /** The server answers with 429 or 5xx, or accepts the connection and does not answer in time; or there are no credentials to ask with. */
  | 'busy'
  /** The server gives a useless answer: 403, a web page, an answer that breaks off, a watch that ends at once. */
  | 'unusable'
  /** The place in the watch is lost: everything must be listed again. */
  | 'relist'

export interface LinkRetryOptions {
  readonly outage: Outage
  /** After an outage this link tries again before those that are not urgent. */
  readonly isUrgent: boolean
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  /** When aborted, all waits end. */
  readonly signal: AbortSignal
}

/** When one link to the API server tries again (docs/api-source.md). */
export class LinkRetry {
  readonly #options: LinkRetryOptions
  readonly #busy: Backoff
  readonly #unusable: Backoff
  readonly #relists: Backoff
  /** The last attempt got no answer of status 200. */
  #isDown = false
  #isFirstRelist = true

  constructor(options: LinkRetryOptions) {
    this.#options = options
    const { random } = options
    this.#busy = new Backoff({ random, shortestMs: 800, longestMs: 30_000 })
    // Such answers are cheap. With three links this is less than one request per second.
    this.#unusable = new Backoff({ random, shortestMs: 800, longestMs: 4000 })
    // The first delay only spreads many nodes. Later ones grow: a server that refuses each watch must not be listed again and again.
    this.#relists = new Backoff({ random, shortestMs: 400, longestMs: 30_000 })
  }

  /** Whether no relist has happened since a watch was steady. */
  get isFirstRelist(): boolean {
    return this.#isFirstRelist
  }

  /** An answer of status 200 has begun. Ends the outage for all links. */
  noteAnswer(): void {
    if (!this.#isDown) return
    this.#isDown = false
    this.#options.outage.end()
  }

  /** A list is complete, or a watch has delivered an event or stayed open. */
  noteSuccess(): void {
    this.#busy.reset()
  }

  /** A watch was steady, and the next one continues at its version. */
  noteSteadyWatch(): void {
    this.#unusable.reset()
    this.#relists.reset()
    this.#isFirstRelist = true
  }

  /** Waits for the time of the next attempt, but at least as long as the server asks. */
  async wait(reason: RetryReason, retryAfterMs: number): Promise<void> {
    const delayMs = Math.max(this.#delayMs(reason), retryAfterMs)
    if (delayMs === 0) return
    this.#isDown = reason === 'away' || reason === 'busy'
    if (reason === 'relist') this.#isFirstRelist = false
    const { outage, clock, signal, isUrgent } = this.#options
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        cancelTimer()
        cancelWaiting()
        signal.removeEventListener('abort', wake)
        resolve()
      }
      const dueMs = clock.now() + delayMs
      let cancelTimer = clock.schedule(delayMs, wake)
      const wakeAfter = (afterMs: number): void => {
        this.#busy.reset()
        if (afterMs === 0) return wake()
        if (clock.now() + afterMs >= dueMs) return
        cancelTimer()
        cancelTimer = clock.schedule(afterMs, wake)
      }
      // NB: only for a link without an answer. Two links whose watches end at once would wake each other for ever.
      const isWakeable = this.#isDown && retryAfterMs === 0
      const cancelWaiting = isWakeable ? outage.onEnd(wakeAfter, isUrgent) : () => false
      signal.addEventListener('abort', wake)
    })
  }

  #delayMs(reason: RetryReason): number {
    if (reason === 'none') return 0
    if (reason === 'away') return this.#options.outage.takeTurn()
    if (reason === 'busy') return this.#busy.next()
    if (reason === 'relist') return this.#relists.next() + this.#options.outage.relistDelay()
    return this.#unusable.next()
  }
}
