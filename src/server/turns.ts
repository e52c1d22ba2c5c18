// The rate at which a server handles requests: a flood must not keep the event loop from programming the kernel.
import type { Clock } from '../clock.js'

/**
 * 1,000 requests per second cost a tenth of a core. Each connection has one place in the queue: 256 connections get their turn
 * within 0.3 s, less than the second that a probe waits.
 */
const periodMs = 10
const leastTurnsPerPeriod = 10

/** Runs work in order of arrival: at most 10 pieces in 10 ms, or as many as `turnsPerSecond` allows if that is more. */
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

  /** Calls `work` once: at once if the period has a turn left, else in a later period. */
  enter(work: () => void): void {
    this.#queue.add(work)
    this.#run()
  }

  /** Removes work that has not run. */
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
