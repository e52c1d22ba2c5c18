import type { Clock } from '../../clock.js'
import { LockReleaseSchedule } from '../shared/index.js'

/** Time between two cheap looks while the tables are not watched. */
const checkPeriodMs = 1000

/**
 * Longest time between two cheap looks while the tables are watched. A look returns memory of earlier writes to the kernel, which
 * PagePool of native/xtables keeps for half a minute.
 */
const longestCheckPeriodMs = 30_000

/** The longest time between two full comparisons, in sync periods. */
const longestRest = 10

/**
 * The times of the looks at one family's tables.
 *
 * A cheap look finds added and removed rules. Without a watch it comes every second. With a watch it comes when the watch saw a
 * difference; two seconds after a write or after the watch began, since the watch may not have looked in between; and after a sync
 * period or `longestCheckPeriodMs`, the shorter of the two.
 *
 * A full comparison finds every difference. It comes when another program released the lock of the tables (`LockReleaseSchedule`), and a sync
 * period after a write. After each comparison without a difference the next one comes twice as late, up to `longestRest`.
 */
export class LookSchedule {
  readonly #clock: Pick<Clock, 'now'>
  readonly #syncPeriodMs: number
  #isWatched = false
  #checkDueMs = 0
  /** The time of the cheap look two seconds after a write or the start of the watch. */
  #recheckDueMs = Infinity
  #compareDueMs: number
  #comparePeriodMs: number
  readonly #lockReleases: LockReleaseSchedule

  constructor(clock: Pick<Clock, 'now'>, syncPeriodMs: number) {
    this.#clock = clock
    this.#syncPeriodMs = syncPeriodMs
    this.#comparePeriodMs = syncPeriodMs
    this.#compareDueMs = clock.now() + syncPeriodMs
    this.#lockReleases = new LockReleaseSchedule(clock)
  }

  /** The look that is due now, which then counts as done. `full` replaces a cheap look; call `endComparison` after it. */
  take(): 'none' | 'cheap' | 'full' {
    const nowMs = this.#clock.now()
    if (nowMs < this.#dueMs) return 'none'
    this.#checkDueMs = nowMs + (this.#isWatched ? this.#watchedPeriodMs : checkPeriodMs)
    if (nowMs >= this.#recheckDueMs) this.#recheckDueMs = Infinity
    if (nowMs < Math.min(this.#compareDueMs, this.#lockReleases.dueMs)) return 'cheap'
    this.#lockReleases.begin()
    this.#comparePeriodMs = Math.min(2 * this.#comparePeriodMs, longestRest * this.#syncPeriodMs)
    this.#compareDueMs = nowMs + this.#comparePeriodMs
    return 'full'
  }

  /** The full comparison is over. Its duration bounds the frequency of those that unlocks request. */
  endComparison(): void {
    this.#lockReleases.end()
  }

  /** Milliseconds until a look is due. */
  nextInMs(): number {
    return Math.max(0, this.#dueMs - this.#clock.now())
  }

  /** The agent wrote the tables. */
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
  noteLook(): void {
    this.#checkDueMs = this.#clock.now()
  }

  /** The watch saw that another program released the lock of the tables. */
  noteUnlock(): void {
    this.#lockReleases.note()
  }

  /** The watch has ended. A look is due at once. */
  endWatch(): void {
    this.#isWatched = false
    this.noteLook()
  }

  get #watchedPeriodMs(): number {
    return Math.min(this.#syncPeriodMs, longestCheckPeriodMs)
  }

  get #dueMs(): number {
    return Math.min(this.#checkDueMs, this.#recheckDueMs, this.#compareDueMs, this.#lockReleases.dueMs)
  }

  /** The watch looks every second: it certainly has looked by then. */
  #recheckSoon(): void {
    this.#recheckDueMs = this.#clock.now() + 2 * checkPeriodMs
  }
}
