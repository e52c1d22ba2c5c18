import { setImmediate as nextTurn } from 'node:timers/promises'

/** The source of time. Tests use a manual clock. */
export interface Clock {
  /** Milliseconds since an arbitrary moment; monotonic. */
  now(): number
  /** Seconds since 1970, for time stamps only. */
  unixSeconds(): number
  /** Calls `wake` once after `delayMs`. The returned function cancels the call. */
  schedule(delayMs: number, wake: () => void): () => void
  /** Resolves after other pending work of the event loop has run. */
  pause(): Promise<void>
}

/** The real clock. Only agent/ uses it. */
export const systemClock: Clock = {
  // Not performance.now(): Node would load modules for it that delay the start.
  now: () => {
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1000 + nanoseconds / 1e6
  },
  unixSeconds: () => Date.now() / 1000,
  schedule: (delayMs, wake) => {
    if (delayMs <= 0) {
      // Node turns a timer of 0 ms into one of 1 ms.
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
