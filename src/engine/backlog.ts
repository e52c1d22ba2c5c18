import type { IpFamily } from '../address.js'
import type { FamilyMetrics } from '../metrics/index.js'
import type { Change } from './changes.js'
import type { Clock } from '../clock.js'
import { type FirstNames, NameList } from './first-names.js'
import { TriggerTimes } from './trigger-times.js'

/** Whether the kernel follows the events of a family (F-090). */
export interface FamilyHealth {
  readonly family: IpFamily
  /** Unix milliseconds of the end of the last complete run; before the first one, of the start of the family. */
  readonly lastUpdatedMs: number
  /** No event and no repair has waited for two sync periods, and the kernel lets the process write. */
  readonly isHealthy: boolean
  /** Frontends are not served because the process lacks a right, which a restart does not give. Absent: no. */
  readonly lacksRight?: boolean
}

/** The events that a run is for. */
export interface RunEvents {
  /** Milliseconds of the clock: the oldest event; undefined: there is none. */
  readonly oldestEventMs: number | undefined
  /** The objects of the events. */
  readonly objects: FirstNames
}

export interface BacklogOptions {
  readonly family: IpFamily
  readonly clock: Clock
  readonly syncPeriodMs: number
  readonly metrics: Pick<FamilyMetrics, 'lastQueuedTimestampSeconds' | 'networkProgrammingSeconds'>
}

/** Records since when events of one family wait for the kernel. Times are milliseconds of the clock unless they name another unit. */
export class Backlog {
  readonly #options: BacklogOptions
  /** The time of the oldest event that no run has begun with. */
  #waitingSinceMs: number | undefined
  /** The time of the oldest event of the run in progress. */
  #inWorkSinceMs: number | undefined
  /** The time of the first failed run since the last complete one: a run without events repairs what another program changed. */
  #failedSinceMs: number | undefined
  /** The objects of the events that no run has begun with. */
  #waitingObjects = new NameList()
  /** Those of the run in progress. */
  #objects = new NameList()
  #lastUpdatedMs: number
  readonly #triggerTimes: TriggerTimes

  constructor(options: BacklogOptions) {
    this.#options = options
    this.#lastUpdatedMs = options.clock.unixMs()
    this.#triggerTimes = new TriggerTimes(options.family, this.#lastUpdatedMs)
  }

  /** Events came that a run must bring to the kernel. */
  note(changes: readonly Change[]): void {
    const { clock, metrics } = this.#options
    this.#waitingSinceMs ??= clock.now()
    metrics.lastQueuedTimestampSeconds.set(clock.unixMs() / 1000)
    this.noteApplied(changes)
  }

  /** Changes of events whose time `note` has. `note` does this. */
  noteApplied(changes: readonly Change[]): void {
    for (const change of changes) this.#triggerTimes.note(change)
    this.noteObjects(changes)
  }

  /** The next run will be for these changes too. `noteApplied` does this. */
  noteObjects(changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.type !== 'set' && change.type !== 'delete') continue
      if (this.#waitingObjects.isFull) this.#waitingObjects.addUnnamed()
      else this.#waitingObjects.add(nameOf(change))
    }
  }

  /** A run begins with all waiting events. */
  begin(): RunEvents {
    this.#requeue()
    return this.join()
  }

  /** Events that came since the run began join it. Returns all its events. */
  join(): RunEvents {
    this.#inWorkSinceMs ??= this.#waitingSinceMs
    this.#waitingSinceMs = undefined
    this.#objects.addAll(this.#waitingObjects.names)
    this.#waitingObjects = new NameList()
    this.#triggerTimes.join()
    return { oldestEventMs: this.#inWorkSinceMs, objects: this.#objects.names }
  }

  /** The kernel has all events of the run. */
  settle(): void {
    const { clock, metrics } = this.#options
    this.#inWorkSinceMs = undefined
    this.#failedSinceMs = undefined
    this.#objects = new NameList()
    this.#lastUpdatedMs = clock.unixMs()
    this.#triggerTimes.settle(this.#lastUpdatedMs, metrics.networkProgrammingSeconds)
  }

  /** The run failed: its events wait again, with their former times. Without events, the failure itself counts as one. */
  waitOn(): void {
    this.#failedSinceMs ??= this.#options.clock.now()
    this.#requeue()
  }

  #requeue(): void {
    this.#waitingSinceMs = this.#inWorkSinceMs ?? this.#waitingSinceMs
    this.#inWorkSinceMs = undefined
    this.#objects.addAll(this.#waitingObjects.names)
    this.#waitingObjects = this.#objects
    this.#objects = new NameList()
    this.#triggerTimes.waitOn()
  }

  get health(): FamilyHealth {
    const { family, clock, syncPeriodMs } = this.#options
    // NB: an event that comes during a failure does not make the failure younger.
    const sinceMs = Math.min(
      ...[this.#inWorkSinceMs, this.#waitingSinceMs, this.#failedSinceMs].map((ms) => ms ?? Infinity),
    )
    const isHealthy = clock.now() - sinceMs < 2 * syncPeriodMs
    return { family, lastUpdatedMs: this.#lastUpdatedMs, isHealthy }
  }
}

/** `EndpointSlice default/web-x7k2`, `ServiceCIDR kubernetes`. */
function nameOf(change: Extract<Change, { readonly type: 'set' | 'delete' }>): string {
  const { kind } = change.type === 'set' ? change.object : change
  const { namespace, name } = change.type === 'set' ? change.object : change.key
  return `${kind} ${namespace === '' ? name : `${namespace}/${name}`}`
}
