import type { Clock } from '../../clock.js'

// Editors that truncate and then write leave an empty file for well under a millisecond. 10 ms of silence let such pairs
// become one change; 50 ms bound the wait when the events never end, so that a change is in the kernel within 100 ms.
const quietMs = 10
const longestWaitMs = 50

/** Calls `settled` when a burst of touches is over, or has lasted too long. */
export class Settler {
  readonly #clock: Clock
  readonly #settled: () => void
  #cancel: (() => void) | undefined
  #first = 0
  #last = 0

  constructor(clock: Clock, settled: () => void) {
    this.#clock = clock
    this.#settled = settled
  }

  touch(): void {
    this.#last = this.#clock.now()
    if (this.#cancel !== undefined) return
    this.#first = this.#last
    this.#arm(quietMs)
  }

  cancel(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #arm(delayMs: number): void {
    this.#cancel = this.#clock.schedule(delayMs, () => {
      const now = this.#clock.now()
      const left = Math.min(this.#last + quietMs, this.#first + longestWaitMs) - now
      if (left > 0) return this.#arm(left)
      this.#cancel = undefined
      this.#settled()
    })
  }
}
