import type { IpFamily } from '../address.js'
import type { FamilyMetrics } from '../metrics/index.js'
import type { Clock } from '../clock.js'
import { type Change, EventList, type LeftPorts, type ServiceEvents, serviceOf } from './event-list.js'
import { type LeftEvents, LeftEventList } from './left-events.js'
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
  readonly #left = new LeftEventList()
  /** The Services with service ports that runs took since the last `settle`. */
  readonly #taken = new Set<string>()
  /** The generation of the service ports that the run in progress takes. */
  #generation = 0
  /** The time of the first failed run since the last complete one: a run without events repairs what another program changed. */
  #failedSinceMs: number | undefined
  #lastUpdatedMs: number
  /** Unix milliseconds. A change of endpoints before it would measure the absence of the agent, not a latency. */
  readonly #startMs: number

  /** `waitingObjects`: the objects of events that came before; others may be added to it until the first run begins. */
  constructor(options: BacklogOptions, waitingObjects = new NameList()) {
    this.#options = options
    this.#waiting = new EventList(waitingObjects)
    this.#lastUpdatedMs = options.clock.unixMs()
    this.#startMs = this.#lastUpdatedMs
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
      if (change.type === 'slice-gone') this.#forgetTriggers(change.service)
      const isEvent = change.type === 'set' || change.type === 'delete'
      // A removed slice names no Service: the fact before it does.
      const service = serviceOf(change) ?? lost
      this.#waiting.note(service, this.#options.clock.now(), isEvent ? change : undefined)
      const triggerMs = this.#triggerOf(change)
      if (triggerMs !== undefined) this.#waiting.noteTrigger(service, triggerMs)
      lost = change.type === 'slice-gone' ? change.service : undefined
    }
  }

  /** A run begins with all waiting events. */
  begin(): RunEvents {
    this.#requeue()
    return this.join()
  }

  /** The run in progress has taken service ports of these Services, `namespace/name`: `settle` asks for the events of these that are left. */
  noteTaken(services: Iterable<string>): void {
    for (const service of services) this.#taken.add(service)
  }

  /**
   * Events that came since the run began join it. Returns its events, and those of earlier runs that are left of the Services that it took.
   * `generation`: that of the service ports that the run takes now.
   */
  join(generation = 0): RunEvents {
    this.#generation = generation
    this.#inWork.addAll(this.#waiting)
    this.#waiting = new EventList()
    const objects = new NameList()
    const times = [this.#inWork.sinceMs]
    for (const { sinceMs, objects: left } of this.#leftOfTaken()) {
      times.push(sinceMs)
      objects.addAll(left.names)
    }
    objects.addAll(this.#inWork.objects.names)
    return { oldestEventMs: earliest(times), objects: objects.names }
  }

  /**
   * The time of the oldest event of the run of which no service port is `left`; undefined: there is none. Absent: none is left, not of an
   * earlier run either.
   */
  oldestInForce(left?: LeftPorts): number | undefined {
    if (left === undefined) return earliest([this.#left.sinceMs, this.#inWork.sinceMs])
    const times: number[] = []
    for (const events of this.#leftOfTaken()) if (!isLeft(events, left)) times.push(events.sinceMs)
    for (const events of this.#inWork.services)
      if (!isLeft(this.#ofRun(events), left)) times.push(events.sinceMs)
    return earliest(times)
  }

  /** The kernel has all events of the run, except those with service ports that are `left` for another share. Absent: none is left. */
  settle(left?: LeftPorts): void {
    this.#lastUpdatedMs = this.#options.clock.unixMs()
    this.#failedSinceMs = undefined
    for (const events of left === undefined ? this.#left.all : this.#leftOfTaken()) {
      if (left !== undefined && isLeft(events, left)) continue
      this.#observe(events)
      this.#left.remove(events)
    }
    for (const events of this.#inWork.services) {
      const ofRun = this.#ofRun(events)
      if (left !== undefined && isLeft(ofRun, left)) this.#left.add(ofRun)
      else this.#observe(events)
    }
    this.#inWork = new EventList()
    this.#taken.clear()
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
  }

  #ofRun(events: ServiceEvents): LeftEvents {
    return { ...events, generation: this.#generation }
  }

  /** The events that are left of no Service, and of the Services that runs took. */
  *#leftOfTaken(): Iterable<LeftEvents> {
    yield* this.#left.of(undefined)
    for (const service of this.#taken) yield* this.#left.of(service)
  }

  /** The time at which endpoints changed in the cluster, by an EndpointSlice of the family; undefined: the change tells none. */
  #triggerOf(change: Change): number | undefined {
    if (change.type !== 'set' && change.type !== 'replaced') return undefined
    if (change.object.kind !== 'EndpointSlice' || change.object.serviceName === undefined) return undefined
    const { lastChangeMs, addressType } = change.object
    if (lastChangeMs === undefined || lastChangeMs <= this.#startMs) return undefined
    return addressType === (this.#options.family === 'ipv4' ? 'IPv4' : 'IPv6') ? lastChangeMs : undefined
  }

  /**
   * Forgets the changes of all slices of the Service, not only of the removed slice, as kube-proxy does. The removal may join the run in
   * progress, so the changes of that run count too.
   */
  #forgetTriggers(service: string): void {
    for (const list of [this.#waiting, this.#inWork, this.#left]) list.forgetTriggers(service)
  }

  /** The events are in the kernel (F-122). */
  #observe({ triggersMs }: ServiceEvents): void {
    const { networkProgrammingSeconds } = this.#options.metrics
    // Clocks of two machines may differ.
    for (const ms of triggersMs)
      networkProgrammingSeconds.observe(Math.max(0, this.#lastUpdatedMs - ms) / 1000)
  }

  get health(): FamilyHealth {
    const { family, clock, syncPeriodMs } = this.#options
    // NB: an event that comes during a failure does not make the failure younger.
    const sinceMs = earliest([this.oldestInForce(), this.#waiting.sinceMs, this.#failedSinceMs]) ?? Infinity
    const isHealthy = clock.now() - sinceMs < 2 * syncPeriodMs
    return { family, lastUpdatedMs: this.#lastUpdatedMs, isHealthy }
  }
}

/** Whether service ports of the events are left. */
function isLeft({ service, generation }: LeftEvents, left: LeftPorts): boolean {
  return left.isDirtySince(service, generation)
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  let first: number | undefined
  for (const ms of times) if (ms !== undefined && (first === undefined || ms < first)) first = ms
  return first
}
