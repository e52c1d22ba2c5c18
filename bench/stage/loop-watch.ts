// Loaded before the agent (node --import): when its event loop was not free for others. Writes JSON to LOOP_WATCH at the end.
import { openSync, readSync, writeFileSync } from 'node:fs'

/** A stretch in which no timer ran. */
export interface Gap {
  /** Its end: milliseconds of CLOCK_MONOTONIC. */
  readonly endMs: number
  /** Without what the machine, busy with others, let the thread wait for a core. */
  readonly ms: number
  readonly wallMs: number
}

const periodMs = 1
const worthTellingMs = 2

/** Milliseconds of CLOCK_MONOTONIC, the same in every process. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Begins to watch this process; the timer keeps nothing alive. */
export function watchLoop(): readonly Gap[] {
  const gaps: Gap[] = []
  const waitedMs = openWaited()
  let last = nowMs()
  let lastWaitedMs = waitedMs()
  setInterval(() => {
    const endMs = nowMs()
    const waited = waitedMs()
    const wallMs = endMs - last - periodMs
    const ms = wallMs - (waited - lastWaitedMs)
    if (wallMs >= worthTellingMs) gaps.push({ endMs, ms, wallMs })
    last = endMs
    lastWaitedMs = waited
  }, periodMs).unref()
  return gaps
}

/** Reads how many milliseconds the main thread has been ready to run without a core. */
function openWaited(): () => number {
  // Of a process this file tells its first thread's times: on a core, waiting, and how often.
  const file = openSync('/proc/self/schedstat', 'r')
  const buffer = Buffer.alloc(128)
  return () => Number(buffer.toString('latin1', 0, readSync(file, buffer, 0, 128, 0)).split(' ')[1]) / 1e6
}

/** Those that ended in a stretch of time. */
export function gapsWithin(gaps: readonly Gap[], fromMs: number, toMs: number): readonly Gap[] {
  return gaps.filter(({ endMs }) => endMs >= fromMs && endMs < toMs)
}

/** Duration of the longest one; 0: none is long enough to report. */
export function longestGap(gaps: readonly Gap[]): Omit<Gap, 'endMs'> {
  const [ms, wallMs] = [gaps.map((gap) => gap.ms), gaps.map((gap) => gap.wallMs)]
  return { ms: Math.max(0, ...ms), wallMs: Math.max(0, ...wallMs) }
}

const output = process.env['LOOP_WATCH']
if (output !== undefined) {
  const gaps = watchLoop()
  process.on('exit', () => writeFileSync(output, JSON.stringify(gaps)))
}
