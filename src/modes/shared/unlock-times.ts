import type { Clock } from '../../clock.js'

/**
 * A comparison that an unlock asks for waits for so many times the duration of the last one: where tools run all the time, comparisons
 * take 2 % of it.
 */
const restFactor = 50

/**
 * When one family's tables are compared because another program let go of their lock: nothing else tells of rules that it replaced by
 * others of the same size. The first unlock after a quiet time asks for a comparison at once.
 */
export class UnlockTimes {
  readonly #clock: Pick<Clock, 'now'>
  /** Since the last comparison began. */
  #isUnlocked = false
  #startMs = 0
  #restEndMs = 0

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /** Another program let go of the lock. */
  note(): void {
    this.#isUnlocked = true
  }

  /** When to compare, now or in the past too; Infinity: nothing asks for it. */
  get dueMs(): number {
    return this.#isUnlocked ? this.#restEndMs : Infinity
  }

  /** A comparison of all tables begins, whatever asked for it. */
  begin(): void {
    this.#isUnlocked = false
    this.#startMs = this.#clock.now()
  }

  end(): void {
    const nowMs = this.#clock.now()
    this.#restEndMs = nowMs + restFactor * (nowMs - this.#startMs)
  }
}
