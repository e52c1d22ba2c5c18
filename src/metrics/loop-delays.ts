/** Looks of one window: a minute at a look per second. */
const looksPerWindow = 60

/**
 * How late looks at the event loop were, in the last full window. NB: the looks are those of another monitor. A timer of its own would wake
 * an agent at rest more often than all its other work.
 */
export class LoopDelays {
  #window: number[] = []
  /** Seconds, shortest first; empty before the end of the first window. */
  #last: readonly number[] = []

  /** Takes the delay of a look, in milliseconds. */
  note(delayMs: number): void {
    this.#window.push(Math.max(0, delayMs) / 1000)
    if (this.#window.length < looksPerWindow) return
    this.#last = this.#window.toSorted((a, b) => a - b)
    this.#window = []
  }

  /** The delay that this share of the looks did not exceed, in seconds; undefined before the end of the first window. */
  quantile(share: number): number | undefined {
    return this.#last[Math.ceil(share * this.#last.length) - 1]
  }
}
