// Guards of the event loop and of V8's heap: what is too slow, or about to be ended, says so before somebody has to ask.
import type { Clock } from '../clock.js'
import { StateReporter, type Log, type Problem } from '../log.js'

export interface StrainOptions {
  readonly clock: Pick<Clock, 'now' | 'every'>
  /** Bytes of V8's heap: those in use, and those at which it ends the process. */
  readonly heap: () => { readonly used: number; readonly limit: number }
  readonly log: Log
}

const periodMs = 1000
/** A look that is so late stood behind something: in the worst case behind twice as much. */
const longestDelayMs = 1000
/** Looks that are in time before all is well again. */
const quietLooks = 60
/** Shares of the heap's limit at which it is full, and has room again. */
const [full, roomy] = [0.9, 0.75]

/** Warns when the event loop was held up for long, and when the heap is nearly full; each once until it is over. */
export function watchStrain({ clock, heap, log }: StrainOptions): void {
  const problems = new StateReporter({
    log,
    level: 'warn',
    trouble: 'The agent is under strain',
    recovery: 'The agent is under strain no more',
    count: () => {},
  })
  let lastMs = clock.now()
  let quiet = 0
  clock.every(periodMs, () => {
    const delayMs = clock.now() - lastMs - periodMs
    lastMs = clock.now()
    quiet = delayMs > longestDelayMs ? 0 : quiet + 1
    if (quiet === 0) problems.report('event loop', heldUp(delayMs))
    else if (quiet >= quietLooks) problems.report('event loop', undefined)
    const { used, limit } = heap()
    if (used > full * limit) problems.report('heap', nearlyFull(used, limit))
    else if (used < roomy * limit) problems.report('heap', undefined)
  })
}

function heldUp(delayMs: number): Problem {
  const text = 'the event loop stood still for over a second: too little CPU, or too much work at once'
  return { text, fields: { delayMs: Math.round(delayMs) } }
}

function nearlyFull(used: number, limit: number): Problem {
  const text =
    'the heap is nearly full, and at its limit the process ends: raise --max-old-space-size (NODE_OPTIONS)'
  return { text, fields: { usedMiB: toMiB(used), limitMiB: toMiB(limit) } }
}

function toMiB(bytes: number): number {
  return Math.round(bytes / 2 ** 20)
}
