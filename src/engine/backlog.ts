import type { IpFamily } from '../address.js'
import type { FamilyMetrics, Observation } from '../metrics/index.js'
import type { Clock } from '../clock.js'
import type { EndpointSlice, ObjectChange } from '../source/index.js'

/** A fact that the work that waits depends on. */
export type Change =
  /** An event that changed the tracker. */
  | ObjectChange
  /** A slice's state that a newer one replaced before it was applied. */
  | { readonly type: 'replaced'; readonly object: EndpointSlice }
  /** A Service (`namespace/name`) lost an EndpointSlice. */
  | { readonly type: 'slice-gone'; readonly service: string }

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
  #waitingObjects: NameList
  /** Those of the run in progress. */
  #objects = new NameList()
  #lastUpdatedMs: number
  readonly #triggerTimes: TriggerTimes

  /** `waitingObjects`: the objects of events that came before; others may be added to it until the first run begins. */
  constructor(options: BacklogOptions, waitingObjects = new NameList()) {
    this.#options = options
    this.#waitingObjects = waitingObjects
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
    for (const change of changes) {
      this.#triggerTimes.note(change)
      if (change.type === 'set' || change.type === 'delete') noteObject(this.#waitingObjects, change)
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

/** Adds the object of the change. */
export function noteObject(objects: NameList, change: ObjectChange): void {
  if (objects.isFull) objects.addUnnamed()
  else objects.add(nameOf(change))
}

/** `EndpointSlice default/web-x7k2`, `ServiceCIDR kubernetes`. */
function nameOf(change: ObjectChange): string {
  const { kind } = change.type === 'set' ? change.object : change
  const { namespace, name } = change.type === 'set' ? change.object : change.key
  return `${kind} ${namespace === '' ? name : `${namespace}/${name}`}`
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

  /** The kernel has all changes of the run. */
  settle(nowMs: number, latency: Observation): void {
    if (this.#inWork.length === 0) return
    // Clocks of two machines may differ.
    for (const { ms } of this.#inWork) latency.observe(Math.max(0, nowMs - ms) / 1000)
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
  }
}

interface Trigger {
  /** `namespace/name`. */
  readonly service: string
  readonly ms: number
}

/** Some things by name: their number, and the first names. */
export interface FirstNames<Name extends string = string> {
  readonly count: number
  readonly first: readonly Name[]
}

/** Greatest number of names of one kind in the record of a pass. */
export const namedInRecord = 8

/** Counts names, and keeps the first ones, each once. */
export class NameList<Name extends string = string> {
  readonly #first: Name[] = []
  #count = 0

  /** NB: once the list is full, it cannot recognize a name that comes again. */
  get isFull(): boolean {
    return this.#first.length === namedInRecord
  }

  add(name: Name): void {
    if (this.#first.includes(name)) return
    this.#count++
    if (!this.isFull) this.#first.push(name)
  }

  /** Counts a further thing, whose name is not kept. */
  addUnnamed(): void {
    this.#count++
  }

  addAll({ count, first }: FirstNames<Name>): void {
    for (const name of first) this.add(name)
    this.#count += count - first.length
  }

  /** As they are now. */
  get names(): FirstNames<Name> {
    return { count: this.#count, first: [...this.#first] }
  }
}
