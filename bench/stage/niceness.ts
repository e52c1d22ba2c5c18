import { existsSync, writeFileSync } from 'node:fs'
import { getPriority } from 'node:os'

/**
 * Makes the `nice` value of this process count against all others. The kernel shares the cores between sessions first: without this file
 * the value would have no effect between sessions.
 */
export function useNiceness(): void {
  const file = '/proc/self/autogroup'
  if (getPriority() !== 0 && existsSync(file)) writeFileSync(file, String(getPriority()))
}
