import type { Clock } from '../../clock.js'

export interface OutageOptions {
  readonly clock: Pick<Clock, 'now'>
  /** From 0 to below 1. */
  readonly random: () => number
}

/** Shortest time between turns; the longest is twice this. */
const shortestTurnMs = { first: 1000, most: 3600 }
/** From this time of an outage on, the shortest time grows by 1 ms in `perMs`: many nodes do not find the server in the same moment. */
const growth = { afterMs: 10_000, perMs: 3 }
/** The longest time after the end of an outage at which a link that waited tries again. It grows as the turns do. */
const longestSpreadMs = 1800
/** Without a turn for this time, an outage is over, even if no link has reported its end. An attempt may take 10 s. */
const overMs = 30_000

/**
 * Shared by the links to one API server while the server is unreachable. They take turns to try, one link every 1 to 2 s at first and
 * every 4 to 7 s after 18 s, so that all links ask no more often than one. The first that gets an answer wakes the others.
 */
export class Outage {
  readonly #options: OutageOptions
  #lastTurnMs = Number.NEGATIVE_INFINITY
  /** Time of the first turn since a link had an answer; undefined: none was taken. */
  #beganMs: number | undefined
  readonly #waiting = new Set<(delayMs: number) => void>()

  constructor(options: OutageOptions) {
    this.#options = options
  }

  /** Takes the next free turn. Returns how long to wait for it, in milliseconds. */
  takeTurn(): number {
    const { clock, random } = this.#options
    const nowMs = clock.now()
    const fromMs = Math.max(this.#lastTurnMs, nowMs)
    if (nowMs - this.#lastTurnMs > overMs) this.#beganMs = undefined
    this.#beganMs ??= nowMs
    const turnMs = Math.min(shortestTurnMs.first + this.#growthMs(fromMs), shortestTurnMs.most)
    this.#lastTurnMs = fromMs + turnMs * (1 + random())
    return this.#lastTurnMs - nowMs
  }

  /** Calls `wake` when a link has an answer again, with the time to wait before the next attempt. The returned function cancels this. */
  onEnd(wake: (delayMs: number) => void): () => void {
    this.#waiting.add(wake)
    return () => this.#waiting.delete(wake)
  }

  /** The server is back. NB: a server that starts answers many nodes in one moment, so the other links of a node do not follow at once. */
  end(): void {
    const { clock, random } = this.#options
    const spreadMs = Math.min(this.#growthMs(clock.now()), longestSpreadMs)
    this.#lastTurnMs = Number.NEGATIVE_INFINITY
    this.#beganMs = undefined
    for (const wake of Array.from(this.#waiting)) wake(spreadMs * random())
  }

  /** By how much delays are longer at this time, because the outage lasts. */
  #growthMs(atMs: number): number {
    return Math.max(atMs - (this.#beganMs ?? atMs) - growth.afterMs, 0) / growth.perMs
  }
}
