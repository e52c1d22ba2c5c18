import { setImmediate } from 'node:timers/promises'
import type { Clock } from './clock.js'

/** The real clock; only agent.ts uses it. */
export const systemClock: Clock = {
  now: () => performance.now(),
  unixSeconds: () => Date.now() / 1000,
  schedule: (delayMs, wake) => {
    const timer = setTimeout(wake, delayMs)
    return () => clearTimeout(timer)
  },
  pause: async () => {
    await setImmediate()
  },
}
