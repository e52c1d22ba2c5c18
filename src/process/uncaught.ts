import type { Log } from '../log.js'

/** The part of Node's `process` that this file uses. */
interface EndingProcess {
  once(event: 'uncaughtException', listener: (error: Error) => void): unknown
  exitCode?: NodeJS.Process['exitCode']
  exit(code: number): void
}

export interface UncaughtErrorOptions {
  readonly log: Pick<Log, 'error'>
  readonly process: EndingProcess
  /** Calls `wake` once. */
  readonly after: (delayMs: number, wake: () => void) => unknown
}

/** Limit for an orderly end. */
const longestEndMs = 10_000

/**
 * Rejects with the first uncaught exception or rejection, so that the process can end in order. Logs it at once, because the process
 * may be ending already. Ends the process if that end takes too long; a second uncaught error ends it at once. A caller may ignore the
 * promise.
 */
export function uncaughtError({ log, process, after }: UncaughtErrorOptions): Promise<never> {
  const uncaught = new Promise<never>((_resolve, reject) => {
    process.once('uncaughtException', (error) => {
      log.error('Uncaught error: the agent exits', { err: error })
      process.exitCode = 1
      after(longestEndMs, () => process.exit(1))
      reject(error)
    })
  })
  uncaught.catch(() => undefined)
  return uncaught
}
