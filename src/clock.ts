import { setImmediate as nextTurn } from 'node:timers/promises'

/** The source of time. Every room gets it as an option; tests use a manual clock. */
export interface Clock {
  /** Milliseconds since an arbitrary moment; monotonic. For delays and durations. */
  now(): number
  /** Milliseconds since 1970, for time stamps and expiry dates only: an administrator may set this clock back. */
  unixMs(): number
  /** Calls `wake` once after `delayMs`. The returned function cancels the call. */
  schedule(delayMs: number, wake: () => void): () => void
  /** Calls `wake` every `periodMs` until the returned function is called. Does not keep the process alive. */
  every(periodMs: number, wake: () => void): () => void
  /** Resolves after other pending work of the event loop has run. */
  pause(): Promise<void>
}

/** The real clock. agent.ts passes it on; only the lines of a StateReporter have it as a default. */
export const systemClock: Clock = {
  // Not performance.now(): Node would load modules for it that delay the start.
  now: () => {
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1000 + nanoseconds / 1e6
  },
  unixMs: () => Date.now(),
  schedule: (delayMs, wake) => {
    if (delayMs <= 0) {
      // Node turns a timer of 0 ms into one of 1 ms.
      const immediate = setImmediate(wake)
      return () => clearImmediate(immediate)
    }
    const timer = setTimeout(wake, delayMs)
    return () => clearTimeout(timer)
  },
  every: (periodMs, wake) => {
    const timer = setInterval(wake, periodMs).unref()
    return () => clearInterval(timer)
  },
  pause: async () => {
    await nextTurn()
  },
}

interface BackoffOptions {
  /** Returns a number from 0 to below 1. Absent: the delays have no random part. */
  readonly random?: () => number
  readonly shortestMs: number
  readonly longestMs: number
}

/**
 * Delays that double from the shortest to the longest. With `random` each delay is a random value between itself and its double, so that
 * the agents of many nodes do not retry at the same moment.
 */
export class Backoff {
  readonly #options: BackoffOptions
  #baseMs: number

  constructor(options: BackoffOptions) {
    this.#options = options
    this.#baseMs = options.shortestMs
  }

  /** Milliseconds to wait before the next attempt. */
  next(): number {
    const { random = none, longestMs } = this.#options
    const delayMs = Math.min(this.#baseMs * (1 + random()), longestMs)
    this.#baseMs = Math.min(2 * this.#baseMs, longestMs)
    return delayMs
  }

  reset(): void {
    this.#baseMs = this.#options.shortestMs
  }
}

function none(): number {
  return 0
}
