import type { Clock } from '../clock.js'
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
  readonly clock: Pick<Clock, 'schedule'>
}

/** Limit for an orderly shutdown after an uncaught error. */
const longestEndMs = 10_000

/**
 * Rejects with the first uncaught exception or promise rejection, so that the process can shut down in order. Logs the error at once,
 * since a shutdown may already be in progress. If the shutdown takes longer than 10 s, or a second error comes, the process exits.
 * The promise may stay unhandled.
 */
export function uncaughtError({ log, process, clock }: UncaughtErrorOptions): Promise<never> {
  const uncaught = new Promise<never>((_resolve, reject) => {
    process.once('uncaughtException', (error) => {
      log.error('Uncaught error: the agent ends', { err: error })
      process.exitCode = 1
      clock.schedule(longestEndMs, () => process.exit(1))
      reject(error)
    })
  })
  uncaught.catch(() => undefined)
  return uncaught
}
