import type { Clock } from '../../clock.js'

export interface OutageOptions {
  readonly clock: Pick<Clock, 'now'>
  /** From 0 to below 1. */
  readonly random: () => number
}

/** Shortest time between turns; the longest is twice this. A refused connection costs the server nothing. */
const turnMs = 1000

/**
 * Shared by the links to one API server while the server is unreachable. They take turns to try, one link every 1 to 2 s, so that three
 * links ask no more often than one. The first that gets an answer wakes the others.
 */
export class Outage {
  readonly #options: OutageOptions
  #lastTurnMs = Number.NEGATIVE_INFINITY
  readonly #waiting = new Set<() => void>()

  constructor(options: OutageOptions) {
    this.#options = options
  }

  /** Takes the next free turn. Returns how long to wait for it, in milliseconds. */
  takeTurn(): number {
    const { clock, random } = this.#options
    const nowMs = clock.now()
    this.#lastTurnMs = Math.max(this.#lastTurnMs, nowMs) + turnMs * (1 + random())
    return this.#lastTurnMs - nowMs
  }

  /** Calls `wake` when a link has an answer again. The returned function cancels this. */
  onEnd(wake: () => void): () => void {
    this.#waiting.add(wake)
    return () => this.#waiting.delete(wake)
  }

  /** The server is back. */
  end(): void {
    this.#lastTurnMs = Number.NEGATIVE_INFINITY
    for (const wake of Array.from(this.#waiting)) wake()
  }
}
