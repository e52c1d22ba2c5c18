// Loaded before the agent (node --import): when its event loop was not free for others. Writes JSON to LOOP_WATCH at the end.
import { writeFileSync } from 'node:fs'

/** A stretch in which no timer ran. */
export interface Gap {
  /** End of it: milliseconds of CLOCK_MONOTONIC. */
  readonly endMs: number
  readonly ms: number
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
  let last = nowMs()
  setInterval(() => {
    const endMs = nowMs()
    const ms = endMs - last - periodMs
    if (ms >= worthTellingMs) gaps.push({ endMs, ms })
    last = endMs
  }, periodMs).unref()
  return gaps
}

/** The longest gap that ended in a stretch of time; 0: none is worth telling. */
export function longestGap(gaps: readonly Gap[], fromMs: number, toMs: number): number {
  return Math.max(0, ...gaps.filter(({ endMs }) => endMs >= fromMs && endMs < toMs).map(({ ms }) => ms))
}

const output = process.env['LOOP_WATCH']
if (output !== undefined) {
  const gaps = watchLoop()
  process.on('exit', () => writeFileSync(output, JSON.stringify(gaps)))
}
