import type { Clock } from '../../clock.js'

export interface OutageOptions {
  readonly clock: Pick<Clock, 'now'>
  /** From 0 to below 1. */
  readonly random: () => number
}

/** Shortest time between turns; the longest is twice this. */
const shortestTurnMs = { first: 1000, most: 4000 }
/** From this time of an outage on, the shortest time grows by 1 ms in `perMs`: many nodes do not find the server in the same moment. */
const growth = { afterMs: 10_000, perMs: 5 }

/**
 * Shared by the links to one API server while the server is unreachable. They take turns to try, one link every 1 to 2 s at first and
 * every 4 to 8 s after 25 s, so that all links ask no more often than one. The first that gets an answer wakes the others.
 */
export class Outage {
  readonly #options: OutageOptions
  #lastTurnMs = Number.NEGATIVE_INFINITY
  /** Time of the first turn since a link had an answer; undefined: none was taken. */
  #beganMs: number | undefined
  readonly #waiting = new Set<() => void>()

  constructor(options: OutageOptions) {
    this.#options = options
  }

  /** Takes the next free turn. Returns how long to wait for it, in milliseconds. */
  takeTurn(): number {
    const { clock, random } = this.#options
    const nowMs = clock.now()
    const fromMs = Math.max(this.#lastTurnMs, nowMs)
    this.#beganMs ??= nowMs
    const longMs = Math.max(fromMs - this.#beganMs - growth.afterMs, 0)
    const turnMs = Math.min(shortestTurnMs.first + longMs / growth.perMs, shortestTurnMs.most)
    this.#lastTurnMs = fromMs + turnMs * (1 + random())
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
    this.#beganMs = undefined
    for (const wake of Array.from(this.#waiting)) wake()
  }
}
