// Loaded before the agent (node --import): when its event loop was not free for others. Writes JSON to LOOP_WATCH at the end.
import { writeFileSync } from 'node:fs'

/** A stretch in which no timer ran. */
export interface Gap {
  /** End of it: milliseconds of CLOCK_MONOTONIC. */
  readonly endMs: number
  readonly ms: number
}

const periodMs = 1
const worthTellingMs = 4

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

const output = process.env['LOOP_WATCH']
if (output !== undefined) {
  const gaps = watchLoop()
  process.on('exit', () => writeFileSync(output, JSON.stringify(gaps)))
}
