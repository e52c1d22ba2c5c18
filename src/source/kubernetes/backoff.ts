const shortestMs = 800
const longestMs = 30_000

/** Delays that double from 0.8 s to 30 s, each drawn between itself and its double: agents of many nodes must not come together. */
export class Backoff {
  readonly #random: () => number
  #baseMs = shortestMs

  /** `random`: from 0 to below 1. */
  constructor(random: () => number) {
    this.#random = random
  }

  /** Milliseconds to wait before the next attempt. */
  next(): number {
    const delayMs = Math.min(this.#baseMs * (1 + this.#random()), longestMs)
    this.#baseMs = Math.min(2 * this.#baseMs, longestMs)
    return delayMs
  }

  reset(): void {
    this.#baseMs = shortestMs
  }
}
