// CPU time of a process, as the kernel counts it.
import { readFileSync } from 'node:fs'

/** USER_HZ of all common Linux builds: the unit of the times in /proc/PID/stat. */
const ticksPerSecond = 100

/** CPU seconds of all threads of the process. */
export function processSeconds(pid: number): number {
  return sum(`/proc/${pid}/stat`, 2)
}

/** The same, and those of the programs that it ran and that have ended. */
export function processAndToolSeconds(pid: number): number {
  return sum(`/proc/${pid}/stat`, 4)
}

/** CPU seconds of the first thread alone: in Node the one of JavaScript. */
export function firstThreadSeconds(pid: number): number {
  return sum(`/proc/${pid}/task/${pid}/stat`, 2)
}

/** Seconds in the first `count` of utime, stime, cutime and cstime, the fields 14 to 17. */
function sum(path: string, count: number): number {
  const stat = readFileSync(path, 'utf8')
  // The name in parentheses may contain any character.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields.slice(11, 11 + count).reduce((ticks, field) => ticks + Number(field), 0) / ticksPerSecond
}
