import { isTransient } from '../errors.js'
import type { Log } from '../log.js'
import { Backoff, type Clock } from '../clock.js'

// The first delays are shorter than those of `RetryQueue`: nothing is programmed meanwhile.
const delays = { shortestMs: 200, longestMs: 30_000 }

/**
 * Calls `open` until it throws no transient error, with growing delays in between; the log says so once. Throws any other error of
 * `open`. NB: each call of `open` starts from the beginning. After the kernel was closed, its next call throws EBADF, which ends
 * the loop.
 */
export async function retryStart<T>(
  open: () => T | Promise<T>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<T> {
  const backoff = new Backoff(delays)
  for (let isFirst = true; ; isFirst = false) {
    try {
      const opened = await open()
      if (!isFirst) log.info('The kernel has the resources for the start now')
      return opened
    } catch (error) {
      if (!isTransient(error)) throw error
      if (isFirst)
        log.warn('The kernel lacks resources for the start: it is tried again until it succeeds', {
          err: error,
        })
    }
    await new Promise<void>((resolve) => clock.schedule(backoff.next(), resolve))
  }
}
