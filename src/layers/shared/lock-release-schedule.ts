import type { Clock } from '../../clock.js'

/**
 * A comparison that an unlock requests waits for this multiple of the duration of the last one. If tools run all the time,
 * comparisons take 2 % of the time.
 */
const restFactor = 50

/** Rest in milliseconds after a comparison that follows events of nf_tables. They report changes of our own chains, which are rare. */
export const restAfterEventsMs = 500

/**
 * The times at which one family's tables are compared because another program released their lock, or changed our rules in nf_tables.
 * Nothing else shows that a program replaced rules by others of the same size. The first unlock after a quiet time requests a
 * comparison at once.
 */
export class LockReleaseSchedule {
  readonly #clock: Pick<Clock, 'now'>
  readonly #restMs: number | undefined
  /** Whether the lock was released since the last comparison began. */
  #isUnlocked = false
  #startMs = 0
  #restEndMs = 0

  /** `restMs`: the rest after each comparison. Default: a multiple of its duration. */
  constructor(clock: Pick<Clock, 'now'>, restMs?: number) {
    this.#clock = clock
    this.#restMs = restMs
  }

  /** Another program released the lock. */
  note(): void {
    this.#isUnlocked = true
  }

  /** The time of the next comparison, which may be past; Infinity: no unlock requests one. */
  get dueMs(): number {
    return this.#isUnlocked ? this.#restEndMs : Infinity
  }

  /** A comparison of all tables begins, for this or another reason. */
  begin(): void {
    this.#isUnlocked = false
    this.#startMs = this.#clock.now()
  }

  end(): void {
    const nowMs = this.#clock.now()
    this.#restEndMs = nowMs + (this.#restMs ?? restFactor * (nowMs - this.#startMs))
  }
}
