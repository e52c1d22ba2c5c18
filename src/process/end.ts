// An orderly end: each part stops, even if another one fails to.
import type { Log } from '../log.js'

interface Part {
  /** Name in the log. */
  readonly part: string
  readonly stop: () => Promise<void> | undefined
}

/** Stops the parts one after the other. Resolves with false if one failed, which the log reports; never rejects. */
export async function endInOrder(parts: readonly Part[], log: Pick<Log, 'error'>): Promise<boolean> {
  let isWell = true
  for (const { part, stop } of parts) {
    try {
      await stop()
    } catch (error) {
      isWell = false
      log.error('A part of the agent failed to stop', { part, err: error })
    }
  }
  return isWell
}
