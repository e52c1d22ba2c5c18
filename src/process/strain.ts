// Warnings about a blocked event loop, and about V8's heap close to its limit.
import { StateReporter, type Log, type Problem } from '../log.js'

export interface StrainOptions {
  /** Calls `look` every `periodMs` until the process ends, without keeping it alive. */
  readonly every: (periodMs: number, look: () => void) => void
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number
  /** Bytes of V8's heap in use, and the limit at which V8 ends the process. */
  readonly heap: () => { readonly used: number; readonly limit: number }
  readonly log: Log
}

const periodMs = 1000
/** Delay of a look that counts as a blocked loop; the loop may have been blocked for up to twice as long. */
const longestDelayMs = 1000
/** Looks in time before the recovery line. */
const quietLooks = 60
/** Shares of the heap's limit at which a warning begins and ends. */
const [full, roomy] = [0.9, 0.75]

/** Warns about a blocked event loop and about a heap that is nearly full; once each until the recovery. */
export function watchStrain({ every, now, heap, log }: StrainOptions): void {
  const problems = new StateReporter({
    log,
    level: 'warn',
    trouble: 'Agent overloaded',
    recovery: 'Agent no longer overloaded',
    count: () => {},
  })
  let lastMs = now()
  let quiet = 0
  every(periodMs, () => {
    const delayMs = now() - lastMs - periodMs
    lastMs = now()
    quiet = delayMs > longestDelayMs ? 0 : quiet + 1
    if (quiet === 0) problems.report('event loop', heldUp(delayMs))
    else if (quiet >= quietLooks) problems.report('event loop', undefined)
    const { used, limit } = heap()
    if (used > full * limit) problems.report('heap', nearlyFull(used, limit))
    else if (used < roomy * limit) problems.report('heap', undefined)
  })
}

function heldUp(delayMs: number): Problem {
  const text = 'the event loop was blocked for over a second: too little CPU time, or too much work at once'
  return { text, fields: { delayMs: Math.round(delayMs) } }
}

function nearlyFull(used: number, limit: number): Problem {
  const text =
    'the heap is nearly full, and V8 ends the process at its limit: raise --max-old-space-size (NODE_OPTIONS)'
  return { text, fields: { usedMiB: toMiB(used), limitMiB: toMiB(limit) } }
}

function toMiB(bytes: number): number {
  return Math.round(bytes / 2 ** 20)
}
