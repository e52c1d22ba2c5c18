// Monitors of the event loop and of V8's heap. They warn before the agent is late or ends for lack of memory.
import type { Clock } from '../clock.js'
import { StateReporter, type Log, type Problem } from '../log.js'

export interface ResourcePressureOptions {
  readonly clock: Pick<Clock, 'now' | 'every'>
  /** Bytes of V8's heap: in use, and the limit at which V8 ends the process. */
  readonly heap: () => { readonly used: number; readonly limit: number }
  readonly log: Log
  /** Called at each look, once a second, with how late it is in milliseconds. */
  readonly looked: (delayMs: number) => void
}

const periodMs = 1000
/** A look that is later than this shows a blocked event loop. A block of up to twice this time may go unnoticed. */
const longestDelayMs = 1000
/** Number of punctual looks in a row that end the problem. */
const quietLooks = 60
/** Fractions of the heap limit at which the problem begins and ends. */
const [full, roomy] = [0.9, 0.75]

/** Warns once when the event loop was blocked or the heap is nearly full, and reports the end of each problem. */
export function watchResourcePressure({ clock, heap, log, looked }: ResourcePressureOptions): void {
  const problems = new StateReporter({
    log,
    level: 'warn',
    problemLine: 'Agent is under resource pressure',
    recovery: 'Agent is no longer under resource pressure',
  })
  let lastMs = clock.now()
  let quiet = 0
  clock.every(periodMs, () => {
    const delayMs = clock.now() - lastMs - periodMs
    lastMs = clock.now()
    looked(delayMs)
    quiet = delayMs > longestDelayMs ? 0 : quiet + 1
    if (quiet === 0) problems.report('event loop', blocked(delayMs))
    else if (quiet >= quietLooks) problems.report('event loop', undefined)
    const { used, limit } = heap()
    if (used > full * limit) problems.report('heap', nearlyFull(used, limit))
    else if (used < roomy * limit) problems.report('heap', undefined)
  })
}

function blocked(delayMs: number): Problem {
  const text = 'the event loop was blocked for over a second: too little CPU, or too much work at once'
  return { text, fields: { delayMs: Math.round(delayMs) } }
}

function nearlyFull(used: number, limit: number): Problem {
  const text =
    'the heap is nearly full: the process ends at the limit; raise --max-old-space-size (NODE_OPTIONS)'
  return { text, fields: { usedMiB: toMiB(used), limitMiB: toMiB(limit) } }
}

function toMiB(bytes: number): number {
  return Math.round(bytes / 2 ** 20)
}
