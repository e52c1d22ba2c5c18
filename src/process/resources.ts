// The memory and the CPU of this process: V8's options, monitors of the event loop and of the heap, and the OOM score.
import { setFlagsFromString } from 'node:v8'
import { writeFileSync } from 'node:fs'
import type { Clock } from '../clock.js'
import { StateReporter, type Log, type Problem } from '../log.js'

const longestStartMs = 60_000

/**
 * Sets V8 options for the start, which builds each of 10,000 Services once on few cores (docs/benchmarks.md has the savings). NB: call it
 * after all modules are loaded: V8 compiles modules that Node loads later without the code cache.
 */
export function prepareV8(clock: Pick<Clock, 'every'>): void {
  // Inlines at most 100 bytes of bytecode per function, not 920: the compiler competes with the start for CPU.
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=100')
  // Grows the young generation to its final size in one step: objects of the start survive, so early collections free nothing.
  setFlagsFromString('--semi-space-growth-factor=16')
  // Collects the young generation only when it is full.
  setFlagsFromString('--no-minor-gc-task')
  // Lets the old generation grow to six times its size between full collections.
  setFlagsFromString('--heap-growing-percent=500')
  // Objects of the start live long, later ones do not. Without this option V8 learns from the start to put later objects into the old
  // generation, where they and their references stay until a full collection.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // Also ends a start that takes too long.
  const cancel = clock.every(longestStartMs, () => {
    cancel()
    endStartOfV8()
  })
}

/**
 * Ends the settings that `prepareV8` made only for the start. Idempotent. After the next full collection the heap grows by a tenth
 * between full collections, and the young generation keeps its size. With V8's defaults, 100 changes per second took 40 MB more.
 */
export function endStartOfV8(): void {
  setFlagsFromString('--heap-growing-percent=10')
  setFlagsFromString('--semi-space-growth-factor=1')
}

/**
 * Returns to the system the memory that only the start needed. V8 keeps the young generation and gaps in the old one until it is idle,
 * and a proxy in a busy cluster is never idle for long. Blocks the event loop for some 0.1 s with 10,000 Services. Throws if Node was
 * built without the inspector, which has this command.
 */
export async function releaseMemory(clock: Pick<Clock, 'pause'>): Promise<void> {
  const { Session } = await import('node:inspector')
  const session = new Session()
  session.connect()
  try {
    await new Promise<void>((resolve, reject) => {
      session.post('HeapProfiler.collectGarbage', (error) => {
        if (error === null) resolve()
        else reject(error)
      })
    })
  } finally {
    // The callback runs inside the session, which cannot disconnect there.
    await clock.pause()
    session.disconnect()
  }
}

interface ResourcePressureOptions {
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

interface OomScoreOptions {
  /** -1000 (never) to 1000. */
  readonly score: number
  /** Default: the file of this process. */
  readonly path?: string
  readonly clock: Pick<Clock, 'schedule'>
  readonly log: Log
}

const attempts = 2
const pauseMs = 100

/** Writes the score, with two attempts. Failure is only a debug line: the agent also works without CAP_SYS_RESOURCE. */
export function setOomScore(options: OomScoreOptions, left = attempts): void {
  const { score, path = '/proc/self/oom_score_adj', clock, log } = options
  try {
    writeFileSync(path, String(score))
  } catch (error) {
    if (left > 1) clock.schedule(pauseMs, () => setOomScore(options, left - 1))
    else log.debug('OOM score cannot be set', { file: path, score, err: error })
  }
}
