import type { Log } from '../log.js'

/** An end in order that takes longer than this does not come. */
const longestEndMs = 10_000

/**
 * Rejects with the first error that nobody caught, of a promise or not, so that the process can end in order; told at once, as the
 * process may be ending already. Where that end hangs, or the next error comes, the process ends without it. Nobody need wait for it.
 */
export function uncaughtError(log: Log): Promise<never> {
  const uncaught = new Promise<never>((_resolve, reject) => {
    process.once('uncaughtException', (error) => {
      log.error('Nobody expected this error: the agent ends', { err: error })
      process.exitCode = 1
      setTimeout(() => process.exit(1), longestEndMs).unref()
      reject(error)
    })
  })
  uncaught.catch(() => undefined)
  return uncaught
}
