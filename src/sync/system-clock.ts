import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from './clock.js'

/** The real clock; only agent.ts uses it. */
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
