// The end of what runs: nothing that fails at it keeps the rest from ending.
import type { Log } from '../log.js'

interface Part {
  stop(): Promise<void>
}

/** Stops each when the one before has stopped, or failed to; failures are told to the log, and reject nothing. */
export async function endInOrder(
  parts: readonly (Part | undefined)[],
  log: Pick<Log, 'error'>,
): Promise<void> {
  for (const part of parts) {
    try {
      await part?.stop()
    } catch (error) {
      log.error('A part of the agent did not end in order', { err: error })
    }
  }
}
