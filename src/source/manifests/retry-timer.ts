import type { Clock } from '../../clock.js'

// A lack of file descriptors or memory is often short, and a disk failure often long: the delay grows.
const firstDelayMs = 100
const longestDelayMs = 10_000

/** Calls `retry` after a delay, which doubles until the problem is over. */
export class RetryTimer {
  readonly #clock: Clock
  readonly #retry: () => void
  #cancel: (() => void) | undefined
  #delayMs = firstDelayMs

  constructor(clock: Clock, retry: () => void) {
    this.#clock = clock
    this.#retry = retry
  }

  /** To be called after each attempt. */
  update(hasFailures: boolean): void {
    if (!hasFailures) {
      this.cancel()
      this.#delayMs = firstDelayMs
    } else if (this.#cancel === undefined) {
      this.#cancel = this.#clock.schedule(this.#delayMs, () => {
        this.#cancel = undefined
        this.#delayMs = Math.min(2 * this.#delayMs, longestDelayMs)
        this.#retry()
      })
    }
  }

  cancel(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }
}
