import type { Clock } from '../../clock.js'
import { UnlockTimes } from '../shared/index.js'

/** Between two cheap looks while the tables are not watched. */
const checkPeriodMs = 1000

/**
 * Between two cheap looks at most while the tables are watched: the look gives memory of the last write back to the kernel
 * (PagePool in native/xtables keeps it for so long).
 */
const longestCheckPeriodMs = 30_000

/** The longest time between two full comparisons, in sync periods. */
const longestRest = 10

/**
 * When one family's tables are looked at, and how. A cheap look notices what was added or removed: one a second, or, where the tables are
 * watched, one a sync period but at least one in 30 s, when the watch saw something, and two seconds after a write or after the watch
 * began, which may not have looked at the tables since. A full comparison notices everything: after another program let go of the
 * lock of the tables, a sync period after a write, and then twice as late each time that it finds nothing, up to ten sync periods.
 */
export class LookTimes {
  readonly #clock: Pick<Clock, 'now'>
  readonly #syncPeriodMs: number
  #isWatched = false
  #checkDueMs = 0
  /** Of the cheap look that a watched table gets after a change. */
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

  /** The look that is due now; it is then taken for done. A full comparison is a cheap look too, and `endComparison` follows it. */
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

  /** The full comparison is over: the time that it took bounds the next ones. */
  endComparison(): void {
    this.#unlocks.end()
  }

  /** Milliseconds until a look is due. */
  nextInMs(): number {
    return Math.max(0, this.#dueMs - this.#clock.now())
  }

  /** The tables were written, or somebody else changed them. */
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

  /** The watch saw that another program let go of the lock of the tables. */
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

  /** Late enough for the watch to have looked once. */
  #recheckSoon(): void {
    this.#recheckDueMs = this.#clock.now() + 2 * checkPeriodMs
  }
}
