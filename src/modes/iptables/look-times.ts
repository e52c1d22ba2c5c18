import type { Clock } from '../../clock.js'
import { UnlockTimes } from '../shared/index.js'

/** Time between two cheap looks while the tables are not watched. */
const checkPeriodMs = 1000

/**
 * Longest time between two cheap looks while the tables are watched: the look returns memory of the last write to the kernel
 * (PagePool in native/xtables keeps it for this time).
 */
const longestCheckPeriodMs = 30_000

/** The longest time between two full comparisons, in sync periods. */
const longestRest = 10

/**
 * The times and kinds of looks at one family's tables. A cheap look notices added and removed rules. It comes once a second; if the
 * tables are watched, it comes once a sync period but at least once in 30 s, when the watch saw a difference, and two seconds after
 * a write or after the watch began, since the watch may not have looked at the tables since. A full comparison notices every
 * difference. It comes after another program released the lock of the tables and a sync period after a write; each time that it
 * finds nothing, the next one comes twice as late, up to ten sync periods.
 */
export class LookTimes {
  readonly #clock: Pick<Clock, 'now'>
  readonly #syncPeriodMs: number
  #isWatched = false
  #checkDueMs = 0
  /** The time of the cheap look that follows a change of a watched table. */
  #recheckDueMs = Infinity
  #compareDueMs: number
  #comparePeriodMs: number
  readonly #unlocks: UnlockTimes

  constructor(clock: Pick<Clock, 'now'>, syncPeriodMs: number) {
    this.#clock = clock
    this.#syncPeriodMs = syncPeriodMs
    this.#comparePeriodMs = syncPeriodMs
    this.#compareDueMs = clock.now() + syncPeriodMs
    this.#unlocks = new UnlockTimes(clock)
  }

  /** The look that is due now, which then counts as done. A full comparison is a cheap look too, and `endComparison` follows it. */
  take(): 'none' | 'cheap' | 'full' {
    const nowMs = this.#clock.now()
    if (nowMs < this.#dueMs) return 'none'
    this.#checkDueMs = nowMs + (this.#isWatched ? this.#watchedPeriodMs : checkPeriodMs)
    if (nowMs >= this.#recheckDueMs) this.#recheckDueMs = Infinity
    if (nowMs < Math.min(this.#compareDueMs, this.#unlocks.dueMs)) return 'cheap'
    this.#unlocks.begin()
    this.#comparePeriodMs = Math.min(2 * this.#comparePeriodMs, longestRest * this.#syncPeriodMs)
    this.#compareDueMs = nowMs + this.#comparePeriodMs
    return 'full'
  }

  /** The full comparison is over. Its duration bounds the frequency of the next ones. */
  endComparison(): void {
    this.#unlocks.end()
  }

  /** Milliseconds until a look is due. */
  nextInMs(): number {
    return Math.max(0, this.#dueMs - this.#clock.now())
  }

  /** This program or another one changed the tables. */
  noteChange(): void {
    this.#comparePeriodMs = this.#syncPeriodMs
    this.#compareDueMs = Math.min(this.#compareDueMs, this.#clock.now() + this.#syncPeriodMs)
    if (this.#isWatched) this.#recheckSoon()
  }

  beginWatch(): void {
    this.#isWatched = true
    this.#checkDueMs = this.#clock.now() + this.#watchedPeriodMs
    this.#recheckSoon()
  }

  /** The watch saw a difference. */
  note(): void {
    this.#checkDueMs = this.#clock.now()
  }

  /** The watch saw that another program released the lock of the tables. */
  noteUnlock(): void {
    this.#unlocks.note()
  }

  /** The tables are not watched any more. */
  endWatch(): void {
    this.#isWatched = false
    this.note()
  }

  get #watchedPeriodMs(): number {
    return Math.min(this.#syncPeriodMs, longestCheckPeriodMs)
  }

  get #dueMs(): number {
    return Math.min(this.#checkDueMs, this.#recheckDueMs, this.#compareDueMs, this.#unlocks.dueMs)
  }

  /** Leaves enough time for the watch to look once. */
  #recheckSoon(): void {
    this.#recheckDueMs = this.#clock.now() + 2 * checkPeriodMs
  }
}
