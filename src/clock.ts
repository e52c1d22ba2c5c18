import { setImmediate as nextTurn } from 'node:timers/promises'

/** The one source of time. Every room gets it as an option; tests bring their own. */
export interface Clock {
  /** Milliseconds since some moment; never goes back. For all delays and durations. */
  now(): number
  /** Milliseconds since 1970, for time stamps and expiry dates only: an administrator may set this clock back. */
  unixMs(): number
  /** Calls `wake` once after `delayMs`, unless the returned function is called before. */
  schedule(delayMs: number, wake: () => void): () => void
  /** Calls `wake` every `periodMs`, until the returned function is called. Does not keep the process alive. */
  every(periodMs: number, wake: () => void): () => void
  /** Resolves when other work that is due has had its turn. */
  pause(): Promise<void>
}

/** The clock of this machine. Only the program itself names it. */
export const systemClock: Clock = {
  // Not performance.now(): Node would load a module for it that a start does not need.
  now: () => {
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1000 + nanoseconds / 1e6
  },
  unixMs: () => Date.now(),
  schedule: (delayMs, wake) => {
    if (delayMs <= 0) {
      // A timer of 0 ms is one of 1 ms.
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
