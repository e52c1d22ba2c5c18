import type { Clock } from '../../clock.js'

/** Shortest time between two looks at changes of other programs. A program that changes our table all the time costs no more. */
const restMs = 500

/** The same while another agent writes other rules. Shorter than for a kube-proxy: an upgrade ends the other agent soon. */
export const agentRestMs = 5000

/** The same, and between two full comparisons, while a kube-proxy writes to the table: Viaduct does not fight it. */
const contestedRestMs = 60_000

/** The other proxy that writes rules into the table now. */
export type Contest = 'none' | 'agent' | 'kube-proxy'

const restsMs: Readonly<Record<Contest, number>> = {
  none: restMs,
  agent: agentRestMs,
  'kube-proxy': contestedRestMs,
}

/**
 * The times and kinds of looks at the table of one family. `suspect` follows a change that the watch saw. `full` comes once a sync
 * period, when the watch begins, since it does not see earlier changes, and when it ends. While a kube-proxy writes to the table,
 * looks come once a minute; while another agent does, every 5 s.
 */
export class NftLookTimes {
  readonly #clock: Pick<Clock, 'now'>
  readonly #syncPeriodMs: number
  #fullDueMs: number
  #isSuspect = false
  #contest: Contest = 'none'
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
      this.#fullDueMs = nowMs + (this.#contest === 'kube-proxy' ? contestedRestMs : this.#syncPeriodMs)
      if (this.#contest !== 'none') this.#restEndMs = nowMs + this.#restMs
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

  /** Another proxy began or ended to write rules into the table. */
  setContest(contest: Contest): void {
    if (contest === this.#contest) return
    this.#contest = contest
    const nowMs = this.#clock.now()
    this.#restEndMs = nowMs + this.#restMs
    this.#fullDueMs = contest === 'none' ? nowMs : Math.max(this.#fullDueMs, this.#restEndMs)
  }

  /** The watch began or ended. */
  noteWatch(): void {
    this.#fullDueMs = this.#clock.now()
  }

  get #restMs(): number {
    return restsMs[this.#contest]
  }

  get #suspectDueMs(): number {
    return this.#isSuspect ? this.#restEndMs : Infinity
  }
}
