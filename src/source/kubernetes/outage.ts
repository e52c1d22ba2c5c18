import type { Clock } from '../../clock.js'

export interface OutageOptions {
  readonly clock: Pick<Clock, 'now'>
  /** From 0 to below 1. */
  readonly random: () => number
}

/** Shortest time between turns. A random part of at most `spread`, and of at most once this time, is added. */
const shortestTurnMs = { first: 1000, most: 4000, spread: 2000 }
/** From this time of an outage on, delays grow by 1 ms in `perMs`, up to `mostMs`: many nodes do not find the server in the same moment. */
const growth = { afterMs: 10_000, perMs: 3, mostMs: 3000 }
/** When links that waited try again after the end of a long outage. A server that starts answers many nodes in one moment. */
const wakeMs = { urgent: { from: 500, to: 1500 }, later: { from: 1800, to: 6000 } }
/** The longest additional delay of a list after a lost version, soon after the end of a long outage. */
const relistMs = 1200
/** So long after its end an outage still delays lists. */
const soonMs = 10_000
/** Without a turn for this time, an outage is over, even if no link has reported its end. An attempt may take 10 s. */
const overMs = 30_000

type Wake = (delayMs: number) => void

/**
 * Shared by the links to one API server while the server is unreachable. They take turns to try, one link every 1 to 2 s at first and
 * every 4 to 6 s after 19 s, so that all links ask no more often than one. The first that gets an answer wakes the others.
 */
export class Outage {
  readonly #options: OutageOptions
  #lastTurnMs = Number.NEGATIVE_INFINITY
  /** Time of the first turn since a link had an answer; undefined: none was taken. */
  #beganMs: number | undefined
  /** Whether each is urgent. */
  readonly #waiting = new Map<Wake, boolean>()
  #ended: { readonly atMs: number; readonly scale: number } | undefined

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
    const { first, most, spread } = shortestTurnMs
    const turnMs = Math.min(first + this.#scale(fromMs) * growth.mostMs, most)
    this.#lastTurnMs = fromMs + turnMs + Math.min(turnMs, spread) * random()
    return this.#lastTurnMs - nowMs
  }

  /**
   * Calls `wake` once when a link has an answer again, with the time to wait before the next attempt: less for an urgent link. The returned
   * function cancels this.
   */
  onEnd(wake: Wake, isUrgent: boolean): () => void {
    this.#waiting.set(wake, isUrgent)
    return () => this.#waiting.delete(wake)
  }

  /** The server is back. Links that were woken by an earlier call keep their times. */
  end(): void {
    const { clock, random } = this.#options
    const atMs = clock.now()
    const scale = this.#scale(atMs)
    if (scale > 0) this.#ended = { atMs, scale }
    this.#lastTurnMs = Number.NEGATIVE_INFINITY
    this.#beganMs = undefined
    const woken = Array.from(this.#waiting)
    this.#waiting.clear()
    for (const [wake, isUrgent] of woken) {
      const { from, to } = isUrgent ? wakeMs.urgent : wakeMs.later
      wake(scale * (from + (to - from) * random()))
    }
  }

  /** How much longer a list after a lost version waits, because the server may be asked for lists by many nodes now. */
  relistDelay(): number {
    const { clock, random } = this.#options
    if (this.#ended === undefined || clock.now() - this.#ended.atMs > soonMs) return 0
    return this.#ended.scale * relistMs * random()
  }

  /** From 0 to 1: by how much delays are longer at this time, because the outage lasts. */
  #scale(atMs: number): number {
    const grownMs = Math.max(atMs - (this.#beganMs ?? atMs) - growth.afterMs, 0) / growth.perMs
    return Math.min(grownMs / growth.mostMs, 1)
  }
}
