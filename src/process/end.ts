// Shutdown of the agent's parts. A part that fails to stop does not keep the others from stopping.
import type { Log } from '../log.js'

interface Part {
  /** For the log. */
  readonly part: string
  readonly stop: () => Promise<void> | undefined
}

/** Stops the parts one after the other. Logs a part that fails, and continues. Returns false if one failed; never rejects. */
export async function endInOrder(parts: readonly Part[], log: Pick<Log, 'error'>): Promise<boolean> {
  let hasSucceeded = true
  for (const { part, stop } of parts) {
    try {
      await stop()
    } catch (error) {
      hasSucceeded = false
      log.error('Part of the agent failed to stop', { part, err: error })
    }
  }
  return hasSucceeded
}
