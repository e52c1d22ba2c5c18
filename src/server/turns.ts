// The rate at which one server accepts requests. A flood of requests must not starve the sync of the event loop.
import type { Clock } from '../clock.js'

/**
 * 1,000 requests per second cost a tenth of a core. A connection has one place in the queue. With 256 connections each gets a turn
 * within 0.3 s; a probe waits for one second.
 */
const periodMs = 10
const leastTurnsPerPeriod = 10

/** Runs work in order of arrival: in each 10 ms at most 10 pieces, or as many as `turnsPerSecond` allows if that is more. */
export class Turns {
  readonly #clock: Pick<Clock, 'now' | 'schedule'>
  readonly #turnsPerSecond: () => number
  readonly #queue = new Set<() => void>()
  #periodStartMs = Number.NEGATIVE_INFINITY
  #used = 0
  #isScheduled = false

  constructor(clock: Pick<Clock, 'now' | 'schedule'>, turnsPerSecond = (): number => 0) {
    this.#clock = clock
    this.#turnsPerSecond = turnsPerSecond
  }

  /** Number of waiting pieces of work. */
  get size(): number {
    return this.#queue.size
  }

  /** Calls `work` once: now if the period has a turn left, otherwise in a later period. */
  enter(work: () => void): void {
    this.#queue.add(work)
    this.#run()
  }

  /** Removes work that has not run yet. */
  leave(work: () => void): void {
    this.#queue.delete(work)
  }

  #run(): void {
    if (this.#isScheduled) return
    const now = this.#clock.now()
    if (now - this.#periodStartMs >= periodMs) {
      this.#periodStartMs = now
      this.#used = 0
    }
    const turns = Math.max(leastTurnsPerPeriod, (this.#turnsPerSecond() * periodMs) / 1000)
    for (const work of this.#queue) {
      if (this.#used >= turns) break
      this.#used++
      this.#queue.delete(work)
      work()
    }
    if (this.#queue.size > 0) this.#runLater(this.#periodStartMs + periodMs - now)
  }

  #runLater(delayMs: number): void {
    this.#isScheduled = true
    this.#clock.schedule(delayMs, () => {
      this.#isScheduled = false
      this.#run()
    })
  }
}
