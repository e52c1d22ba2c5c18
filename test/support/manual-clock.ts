import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../../src/clock.js'

interface Timer {
  readonly dueMs: number
  readonly wake: () => void
}

/** A clock that tests move. */
export class ManualClock implements Clock {
  #nowMs = 0
  readonly #timers = new Set<Timer>()
  pauses = 0
  /** Number of times that a timer fired. */
  wakes = 0

  now(): number {
    return this.#nowMs
  }

  unixMs(): number {
    return 1_700_000_000_000 + this.#nowMs
  }

  schedule(delayMs: number, wake: () => void): () => void {
    const timer = { dueMs: this.#nowMs + delayMs, wake }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  every(periodMs: number, wake: () => void): () => void {
    const again = (): void => {
      cancel = this.schedule(periodMs, again)
      wake()
    }
    let cancel = this.schedule(periodMs, again)
    return () => cancel()
  }

  async pause(): Promise<void> {
    this.pauses++
  }

  get pending(): number {
    return this.#timers.size
  }

  /** Lets `ms` pass while work holds the event loop: no timer fires. */
  skip(ms: number): void {
    this.#nowMs += ms
  }

  /** Lets `ms` pass. Timers fire in order; the effects of each end before the next fires. */
  async advance(ms: number): Promise<void> {
    const end = this.#nowMs + ms
    for (;;) {
      await settle()
      const next = [...this.#timers].toSorted((a, b) => a.dueMs - b.dueMs)[0]
      if (next === undefined || next.dueMs > end) break
      this.#timers.delete(next)
      this.#nowMs = Math.max(this.#nowMs, next.dueMs)
      this.wakes++
      next.wake()
    }
    this.#nowMs = end
    await settle()
  }
}

/** Resolves when all pending promises have run. That is all work at this time, because the model kernel does no I/O. */
export async function settle(): Promise<void> {
  await setImmediate()
}
