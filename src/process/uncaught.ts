import type { Clock } from '../clock.js'
import type { Log } from '../log.js'

/** What is used of Node's. */
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

/** An end in order that takes longer than this does not come. */
const longestEndMs = 10_000

/**
 * Rejects with the first error that nobody caught, of a promise or not, so that the process can end in order; told at once, as the
 * process may be ending already. Where that end hangs, or the next error comes, the process ends without it. Nobody need wait for it.
 */
export function uncaughtError({ log, process, clock }: UncaughtErrorOptions): Promise<never> {
  const uncaught = new Promise<never>((_resolve, reject) => {
    process.once('uncaughtException', (error) => {
      log.error('Nobody expected this error: the agent ends', { err: error })
      process.exitCode = 1
      clock.schedule(longestEndMs, () => process.exit(1))
      reject(error)
    })
  })
  uncaught.catch(() => undefined)
  return uncaught
}
