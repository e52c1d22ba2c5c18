import type { IpFamily } from '../address.js'
import type { FamilyMetrics, Observation } from '../metrics/index.js'
import type { Clock } from '../clock.js'
import { type Change, EventList, isLeft, type LeftEvents, type LeftPorts, serviceOf } from './event-list.js'
import { type FirstNames, NameList } from './name-list.js'

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
  /** The events that no run has begun with. */
  #waiting: EventList
  /** Those of the run in progress. */
  #inWork = new EventList()
  /** Those of earlier runs whose service ports wait for another share. */
  #left: readonly LeftEvents[] = []
  /** The generation of the service ports that the run in progress takes. */
  #generation = 0
  /** The time of the first failed run since the last complete one: a run without events repairs what another program changed. */
  #failedSinceMs: number | undefined
  #lastUpdatedMs: number
  readonly #triggerTimes: TriggerTimes

  /** `waitingObjects`: the objects of events that came before; others may be added to it until the first run begins. */
  constructor(options: BacklogOptions, waitingObjects = new NameList()) {
    this.#options = options
    this.#waiting = new EventList(waitingObjects)
    this.#lastUpdatedMs = options.clock.unixMs()
    this.#triggerTimes = new TriggerTimes(options.family, this.#lastUpdatedMs)
  }

  /** Events came that a run must bring to the kernel. */
  note(changes: readonly Change[]): void {
    const { clock, metrics } = this.#options
    this.#waiting.begin(clock.now())
    metrics.lastQueuedTimestampSeconds.set(clock.unixMs() / 1000)
    if (changes.length === 0) this.#waiting.note(undefined, clock.now())
    this.noteApplied(changes)
  }

  /** Changes of events whose time `note` has. `note` does this. */
  noteApplied(changes: readonly Change[]): void {
    let lost: string | undefined
    for (const change of changes) {
      this.#triggerTimes.note(change)
      const isEvent = change.type === 'set' || change.type === 'delete'
      // A removed slice names no Service: the fact before it does.
      const service = serviceOf(change) ?? lost
      this.#waiting.note(service, this.#options.clock.now(), isEvent ? change : undefined)
      lost = change.type === 'slice-gone' ? change.service : undefined
    }
  }

  /** A run begins with all waiting events. */
  begin(): RunEvents {
    this.#requeue()
    return this.join()
  }

  /**
   * Events that came since the run began join it. Returns all its events, those of earlier runs that are left included. `generation`: that
   * of the service ports that the run takes now.
   */
  join(generation = 0): RunEvents {
    this.#generation = generation
    this.#inWork.addAll(this.#waiting)
    this.#waiting = new EventList()
    this.#triggerTimes.join()
    const objects = new NameList()
    for (const events of this.#left) objects.addAll(events.objects.names)
    objects.addAll(this.#inWork.objects.names)
    return { oldestEventMs: this.oldestInForce(), objects: objects.names }
  }

  /** The time of the oldest event of the run of which no service port is `left`; undefined: there is none. Absent: none is left. */
  oldestInForce(left?: LeftPorts): number | undefined {
    if (left === undefined)
      return earliest([this.#inWork.sinceMs, ...this.#left.map(({ sinceMs }) => sinceMs)])
    const inForce = this.#events().filter((events) => !isLeft(events, left))
    return earliest(inForce.map(({ sinceMs }) => sinceMs))
  }

  /** The kernel has all events of the run, except those with service ports that are `left` for another share. Absent: none is left. */
  settle(left?: LeftPorts): void {
    const { clock, metrics } = this.#options
    this.#left = left === undefined ? [] : this.#events().filter((events) => isLeft(events, left))
    this.#inWork = new EventList()
    this.#failedSinceMs = undefined
    this.#lastUpdatedMs = clock.unixMs()
    const isWaiting = (trigger: LeftTrigger): boolean => left !== undefined && isLeft(trigger, left)
    this.#triggerTimes.settle(this.#lastUpdatedMs, metrics.networkProgrammingSeconds, {
      generation: this.#generation,
      isWaiting,
    })
  }

  /** The run failed: its events wait again, with their former times. Without events, the failure itself counts as one. */
  waitOn(): void {
    this.#failedSinceMs ??= this.#options.clock.now()
    this.#requeue()
  }

  #requeue(): void {
    this.#inWork.addAll(this.#waiting)
    this.#waiting = this.#inWork
    this.#inWork = new EventList()
    this.#triggerTimes.waitOn()
  }

  /** Those of the run in progress, and those that are left. */
  #events(): readonly LeftEvents[] {
    const generation = this.#generation
    return [...this.#left, ...Array.from(this.#inWork.services, (events) => ({ ...events, generation }))]
  }

  get health(): FamilyHealth {
    const { family, clock, syncPeriodMs } = this.#options
    // NB: an event that comes during a failure does not make the failure younger.
    const sinceMs = earliest([this.oldestInForce(), this.#waiting.sinceMs, this.#failedSinceMs]) ?? Infinity
    const isHealthy = clock.now() - sinceMs < 2 * syncPeriodMs
    return { family, lastUpdatedMs: this.#lastUpdatedMs, isHealthy }
  }
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  let first: number | undefined
  for (const ms of times) if (ms !== undefined && (first === undefined || ms < first)) first = ms
  return first
}

/** Bound of the list while the kernel refuses. More entries add no information. */
const longestList = 10_000

/**
 * The times at which endpoints of one family changed in the cluster, by their EndpointSlices. Each is kept until its change is in
 * the kernel (F-122). Times are Unix milliseconds.
 */
class TriggerTimes {
  readonly #addressType: 'IPv4' | 'IPv6'
  readonly #startMs: number
  /** Changes that no run has begun with. */
  #waiting: Trigger[] = []
  #inWork: Trigger[] = []
  /** Those of earlier runs whose service ports wait for another share. */
  #left: readonly LeftTrigger[] = []

  /** `startMs`: the time at which the pipeline opened. A change before it would measure the absence of the agent, not a latency. */
  constructor(family: IpFamily, startMs: number) {
    this.#addressType = family === 'ipv4' ? 'IPv4' : 'IPv6'
    this.#startMs = startMs
  }

  note(change: Change): void {
    if (change.type === 'slice-gone') this.#forget(change.service)
    if (change.type !== 'set' && change.type !== 'replaced') return
    if (change.object.kind !== 'EndpointSlice') return
    const { namespace, serviceName, lastChangeMs, addressType } = change.object
    if (serviceName === undefined || lastChangeMs === undefined || lastChangeMs <= this.#startMs) return
    if (addressType === this.#addressType && this.#waiting.length < longestList)
      this.#waiting.push({ service: `${namespace}/${serviceName}`, ms: lastChangeMs })
  }

  /** The run in progress, or the one that begins, is for all waiting changes too. */
  join(): void {
    if (this.#waiting.length === 0) return
    this.#inWork = this.#inWork.concat(this.#waiting).slice(0, longestList)
    this.#waiting = []
  }

  /** The kernel has all changes of the run, except those that wait for another share. `generation`: that of the run. */
  settle(
    nowMs: number,
    latency: Observation,
    {
      generation,
      isWaiting,
    }: { readonly generation: number; readonly isWaiting: (trigger: LeftTrigger) => boolean },
  ): void {
    if (this.#inWork.length + this.#left.length === 0) return
    const left: LeftTrigger[] = []
    for (const trigger of [...this.#left, ...this.#inWork.map((each) => ({ ...each, generation }))]) {
      if (isWaiting(trigger)) left.push(trigger)
      // Clocks of two machines may differ.
      else latency.observe(Math.max(0, nowMs - trigger.ms) / 1000)
    }
    this.#left = left.slice(0, longestList)
    this.#inWork = []
  }

  /** The run failed: its changes wait again. */
  waitOn(): void {
    if (this.#inWork.length === 0) return
    this.#waiting = this.#inWork.concat(this.#waiting).slice(0, longestList)
    this.#inWork = []
  }

  /**
   * Forgets the changes of all slices of the Service, not only of the removed slice, as kube-proxy does. The removal may join the run in
   * progress, so the changes of that run count too.
   */
  #forget(service: string): void {
    const isOther = (trigger: Trigger): boolean => trigger.service !== service
    if (this.#waiting.length > 0) this.#waiting = this.#waiting.filter(isOther)
    if (this.#inWork.length > 0) this.#inWork = this.#inWork.filter(isOther)
    if (this.#left.length > 0) this.#left = this.#left.filter(isOther)
  }
}

interface Trigger {
  /** `namespace/name`. */
  readonly service: string
  readonly ms: number
}

/** The generation is that of the service ports that its run took. */
interface LeftTrigger extends Trigger {
  readonly generation: number
}
