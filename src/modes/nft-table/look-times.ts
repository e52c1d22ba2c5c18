import type { Clock } from '../../clock.js'

/** Shortest time between two looks at changes of other programs. A program that changes our table all the time costs no more. */
const restMs = 500

/** The same, and between two full comparisons, while another proxy writes to the table: Viaduct does not fight it. */
const contestedRestMs = 60_000

/**
 * The times and kinds of looks at the table of one family. `suspect` follows a change that the watch saw. `full` comes once a sync
 * period, when the watch begins, since it does not see earlier changes, and when it ends. While another proxy writes to the table,
 * looks come once a minute.
 */
export class NftLookTimes {
  readonly #clock: Pick<Clock, 'now'>
  readonly #syncPeriodMs: number
  #fullDueMs: number
  #isSuspect = false
  #isContested = false
  #restEndMs = -Infinity

  constructor(clock: Pick<Clock, 'now'>, syncPeriodMs: number) {
    this.#clock = clock
    this.#syncPeriodMs = syncPeriodMs
    this.#fullDueMs = clock.now() + syncPeriodMs
  }

  /** The look that is due now, which then counts as done. */
  take(): 'none' | 'suspect' | 'full' {
    const nowMs = this.#clock.now()
    if (nowMs >= this.#fullDueMs) {
      this.#fullDueMs = nowMs + (this.#isContested ? contestedRestMs : this.#syncPeriodMs)
      if (this.#isContested) this.#restEndMs = nowMs + contestedRestMs
      this.#isSuspect = false
      return 'full'
    }
    if (nowMs < this.#suspectDueMs) return 'none'
    this.#isSuspect = false
    this.#restEndMs = nowMs + this.#restMs
    return 'suspect'
  }

  /** Milliseconds until a look is due. */
  nextInMs(): number {
    return Math.max(0, Math.min(this.#fullDueMs, this.#suspectDueMs) - this.#clock.now())
  }

  /** Another program changed the table. */
  noteChange(): void {
    this.#isSuspect = true
  }

  /** Whether another proxy writes to the table now. */
  setContested(isContested: boolean): void {
    if (isContested === this.#isContested) return
    this.#isContested = isContested
    const nowMs = this.#clock.now()
    this.#restEndMs = nowMs + this.#restMs
    this.#fullDueMs = isContested ? Math.max(this.#fullDueMs, this.#restEndMs) : nowMs
  }

  /** The watch began or ended. */
  noteWatch(): void {
    this.#fullDueMs = this.#clock.now()
  }

  get #restMs(): number {
    return this.#isContested ? contestedRestMs : restMs
  }

  get #suspectDueMs(): number {
    return this.#isSuspect ? this.#restEndMs : Infinity
  }
}
