import type { Clock } from '../../clock.js'
import { agentRestMs, type OtherAgent } from './other-agents.js'

/** Shortest time between two looks at changes of other programs. A program that changes our table all the time costs no more. */
const restMs = 500

/** The same, and between two full comparisons, while a kube-proxy writes to the table: Viaduct does not fight it. */
const contestedRestMs = 60_000

const restsMs: Readonly<Record<OtherAgent, number>> = {
  none: restMs,
  agent: agentRestMs,
  'kube-proxy': contestedRestMs,
}

/**
 * The times and kinds of looks at the table of one family. `partial` follows a change that the watch saw. `full` comes once a sync
 * period, when the watch begins, since it does not see earlier changes, and when it ends. While a kube-proxy writes to the table,
 * looks come once a minute; while another agent does, every 5 s. Meanwhile `flush` asks after a change whether most of the table is gone.
 */
export class NftLookSchedule {
  readonly #clock: Pick<Clock, 'now'>
  readonly #syncPeriodMs: number
  #fullDueMs: number
  #isPartialWanted = false
  #other: OtherAgent = 'none'
  #restEndMs = -Infinity
  /** A change that no look has seen, not even one of the kind `flush`. */
  #isNew = false
  #flushRestEndMs = -Infinity

  constructor(clock: Pick<Clock, 'now'>, syncPeriodMs: number) {
    this.#clock = clock
    this.#syncPeriodMs = syncPeriodMs
    this.#fullDueMs = clock.now() + syncPeriodMs
  }

  /** The look that is due now, which then counts as done. */
  take(): 'none' | 'flush' | 'partial' | 'full' {
    const nowMs = this.#clock.now()
    if (nowMs >= this.#fullDueMs) {
      this.#fullDueMs = nowMs + (this.#other === 'kube-proxy' ? contestedRestMs : this.#syncPeriodMs)
      if (this.#other !== 'none') this.#restEndMs = nowMs + this.#restMs
      this.#noteLook(nowMs)
      return 'full'
    }
    if (nowMs >= this.#partialDueMs) {
      this.#noteLook(nowMs)
      this.#restEndMs = nowMs + this.#restMs
      return 'partial'
    }
    if (nowMs < this.#flushDueMs) return 'none'
    this.#isNew = false
    this.#flushRestEndMs = nowMs + restMs
    return 'flush'
  }

  /** Milliseconds until a look is due. */
  nextInMs(): number {
    return Math.max(0, Math.min(this.#fullDueMs, this.#partialDueMs, this.#flushDueMs) - this.#clock.now())
  }

  /** Another program changed the table. */
  noteChange(): void {
    this.#isPartialWanted = true
    this.#isNew = true
  }

  /** Most of the table is gone: a look is due now. */
  noteFlush(): void {
    this.#restEndMs = this.#clock.now()
  }

  /** Another agent began or ended to write to the table. */
  setOther(other: OtherAgent): void {
    if (other === this.#other) return
    this.#other = other
    const nowMs = this.#clock.now()
    this.#restEndMs = nowMs + this.#restMs
    this.#fullDueMs = other === 'none' ? nowMs : Math.max(this.#fullDueMs, this.#restEndMs)
  }

  /** The watch began or ended. */
  noteWatch(): void {
    this.#fullDueMs = this.#clock.now()
  }

  get #restMs(): number {
    return restsMs[this.#other]
  }

  get #partialDueMs(): number {
    return this.#isPartialWanted ? this.#restEndMs : Infinity
  }

  get #flushDueMs(): number {
    return this.#isNew && this.#other !== 'none' ? this.#flushRestEndMs : Infinity
  }

  #noteLook(nowMs: number): void {
    this.#isPartialWanted = false
    this.#isNew = false
    this.#flushRestEndMs = nowMs + restMs
  }
}
