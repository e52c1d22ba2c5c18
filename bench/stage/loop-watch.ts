// Loaded before the agent (node --import). Records gaps of its event loop, and writes them as JSON to the file LOOP_WATCH at the end.
import { openSync, readSync, writeFileSync } from 'node:fs'

/** An interval in which no timer ran. */
export interface Gap {
  /** Time of its end, in milliseconds of CLOCK_MONOTONIC. */
  readonly endMs: number
  /** Duration without the time in which the thread waited for a core. */
  readonly ms: number
  readonly wallMs: number
}

const periodMs = 1
const shortestGapMs = 2

/** Milliseconds of CLOCK_MONOTONIC, the same in every process. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Starts to watch this process. The timer does not keep the process alive. */
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
    if (wallMs >= shortestGapMs) gaps.push({ endMs, ms, wallMs })
    last = endMs
    lastWaitedMs = waited
  }, periodMs).unref()
  return gaps
}

/** Opens a reader of the milliseconds in which the main thread was ready to run and waited for a core. */
function openWaited(): () => number {
  // For a process this file has the times of its first thread: on a core, waiting, and the number of runs.
  const file = openSync('/proc/self/schedstat', 'r')
  const buffer = Buffer.alloc(128)
  return () => Number(buffer.toString('latin1', 0, readSync(file, buffer, 0, 128, 0)).split(' ')[1]) / 1e6
}

/** The gaps that ended in this interval. */
export function gapsWithin(gaps: readonly Gap[], fromMs: number, toMs: number): readonly Gap[] {
  return gaps.filter(({ endMs }) => endMs >= fromMs && endMs < toMs)
}

/** Duration of the longest gap; 0: there is none. */
export function longestGap(gaps: readonly Gap[]): Omit<Gap, 'endMs'> {
  const [ms, wallMs] = [gaps.map((gap) => gap.ms), gaps.map((gap) => gap.wallMs)]
  return { ms: Math.max(0, ...ms), wallMs: Math.max(0, ...wallMs) }
}

const output = process.env['LOOP_WATCH']
if (output !== undefined) {
  const gaps = watchLoop()
  process.on('exit', () => writeFileSync(output, JSON.stringify(gaps)))
}
