export interface BackoffOptions {
  /** Returns a number from 0 to below 1. Absent: the delays have no random part. */
  readonly random?: () => number
  readonly shortestMs: number
  readonly longestMs: number
}

/**
 * Delays that double from the shortest to the longest. With `random` each delay is a random value between itself and its double, so that
 * the agents of many nodes do not retry at the same moment.
 */
export class Backoff {
  readonly #options: BackoffOptions
  #baseMs: number

  constructor(options: BackoffOptions) {
    this.#options = options
    this.#baseMs = options.shortestMs
  }

  /** Milliseconds to wait before the next attempt. */
  next(): number {
    const { random = none, longestMs } = this.#options
    const delayMs = Math.min(this.#baseMs * (1 + random()), longestMs)
    this.#baseMs = Math.min(2 * this.#baseMs, longestMs)
    return delayMs
  }

  reset(): void {
    this.#baseMs = this.#options.shortestMs
  }
}

function none(): number {
  return 0
}
