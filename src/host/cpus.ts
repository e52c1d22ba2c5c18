import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'

/** `0-3,8`. */
const ranges = /^\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$/u

/**
 * The number of the machine's online CPUs, including those that this process may not use. If `file` cannot be read, the number of CPUs
 * that this process may use.
 */
export async function countCpus(file = '/sys/devices/system/cpu/online'): Promise<number> {
  const text = await readFile(file, 'utf8').catch(() => '')
  if (!ranges.test(text.trim())) return availableParallelism()
  let count = 0
  for (const range of text.split(',')) {
    const [first = 0, last = first] = range.split('-').map(Number)
    count += last - first + 1
  }
  return count
}
