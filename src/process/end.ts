// The end of what runs: nothing that fails at it keeps the rest from ending.
import type { Log } from '../log.js'

interface Part {
  /** For the log. */
  readonly part: string
  readonly stop: () => Promise<void> | undefined
}

/** Stops each when the one before has stopped, or failed to. False: one failed, which the log tells; nothing rejects. */
export async function endInOrder(parts: readonly Part[], log: Pick<Log, 'error'>): Promise<boolean> {
  let isWell = true
  for (const { part, stop } of parts) {
    try {
      await stop()
    } catch (error) {
      isWell = false
      log.error('A part of the agent did not end in order', { part, err: error })
    }
  }
  return isWell
}
