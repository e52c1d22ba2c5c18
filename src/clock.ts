import { setImmediate as nextTurn } from 'node:timers/promises'

/** Time, as the program needs it; tests bring their own. */
export interface Clock {
  /** Milliseconds since some moment; never goes back. */
  now(): number
  /** Seconds since 1970, for time stamps only. */
  unixSeconds(): number
  /** Calls `wake` once after `delayMs`, unless the returned function is called before. */
  schedule(delayMs: number, wake: () => void): () => void
  /** Resolves when other work that is due has had its turn. */
  pause(): Promise<void>
}

/** The real clock; only agent/ uses it. */
export const systemClock: Clock = {
  // Not performance.now(), for which Node loads what a start can do without.
  now: () => {
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1000 + nanoseconds / 1e6
  },
  unixSeconds: () => Date.now() / 1000,
  schedule: (delayMs, wake) => {
    if (delayMs <= 0) {
      // A timer of 0 ms is one of 1 ms.
      const immediate = setImmediate(wake)
      return () => clearImmediate(immediate)
    }
    const timer = setTimeout(wake, delayMs)
    return () => clearTimeout(timer)
  },
  pause: async () => {
    await nextTurn()
  },
}
