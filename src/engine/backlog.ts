import type { IpFamily } from '../address.js'
import type { FamilyMetrics } from '../metrics/index.js'
import type { Change } from './changes.js'
import type { Clock } from '../clock.js'
import { TriggerTimes } from './trigger-times.js'

/** Whether the kernel follows the events of a family (F-090). */
export interface FamilyHealth {
  readonly family: IpFamily
  /** Unix milliseconds: when the last run ended that left nothing behind; before the first one, when the family began. */
  readonly lastUpdatedMs: number
  /** Nothing has waited for two sync periods. */
  readonly isHealthy: boolean
}

export interface BacklogOptions {
  readonly family: IpFamily
  readonly clock: Clock
  readonly syncPeriodMs: number
  readonly metrics: Pick<FamilyMetrics, 'lastQueuedTimestampSeconds' | 'networkProgrammingSeconds'>
}

/** Since when events of one family wait for the kernel. Times without a unit of their own: milliseconds of the clock. */
export class Backlog {
  readonly #options: BacklogOptions
  /** Of events that no run has begun with. */
  #waitingSinceMs: number | undefined
  /** Of those that the run in progress is for. */
  #inWorkSinceMs: number | undefined
  #lastUpdatedMs: number
  readonly #triggerTimes: TriggerTimes

  constructor(options: BacklogOptions) {
    this.#options = options
    this.#lastUpdatedMs = options.clock.unixMs()
    this.#triggerTimes = new TriggerTimes(options.family, this.#lastUpdatedMs)
  }

  /** Events came that a run has to bring into the kernel. */
  note(changes: readonly Change[]): void {
    const { clock, metrics } = this.#options
    this.#waitingSinceMs ??= clock.now()
    metrics.lastQueuedTimestampSeconds.set(clock.unixMs() / 1000)
    for (const change of changes) this.#triggerTimes.note(change)
  }

  /** A run begins with all that waits; since when the oldest does; undefined: nothing does. */
  begin(): number | undefined {
    this.waitOn()
    this.#inWorkSinceMs = this.#waitingSinceMs
    this.#waitingSinceMs = undefined
    this.#triggerTimes.begin()
    return this.#inWorkSinceMs
  }

  /** What the run was for is in the kernel. */
  settle(): void {
    const { clock, metrics } = this.#options
    this.#inWorkSinceMs = undefined
    this.#lastUpdatedMs = clock.unixMs()
    this.#triggerTimes.settle(this.#lastUpdatedMs, metrics.networkProgrammingSeconds)
  }

  /** What the run was for is still to be done, and is as old as it is. */
  waitOn(): void {
    this.#waitingSinceMs = this.#inWorkSinceMs ?? this.#waitingSinceMs
    this.#inWorkSinceMs = undefined
    this.#triggerTimes.waitOn()
  }

  get health(): FamilyHealth {
    const { family, clock, syncPeriodMs } = this.#options
    const sinceMs = this.#inWorkSinceMs ?? this.#waitingSinceMs
    const isHealthy = sinceMs === undefined || clock.now() - sinceMs < 2 * syncPeriodMs
    return { family, lastUpdatedMs: this.#lastUpdatedMs, isHealthy }
  }
}
