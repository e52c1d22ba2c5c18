// Events of one family that wait for the kernel, by Service.
import type { EndpointSlice, ObjectChange } from '../source/index.js'
import { NameList, noteObject } from './name-list.js'

/** A fact that the work that waits depends on. */
export type Change =
  /** An event that changed the tracker. */
  | ObjectChange
  /** A slice's state that a newer one replaced before it was applied. */
  | { readonly type: 'replaced'; readonly object: EndpointSlice }
  /** A change of the Service (`namespace/name`; undefined: unknown) came, and is not applied yet. */
  | { readonly type: 'waiting'; readonly service: string | undefined }
  /** A Service (`namespace/name`) lost an EndpointSlice. */
  | { readonly type: 'slice-gone'; readonly service: string }

/** The service ports that wait for another share, because a run took only a part of the dirty ones. */
export interface LeftPorts {
  /** Whether a port of the Service waits since this generation or an earlier one. `service` undefined: a port of any Service. */
  isDirtySince(service: string | undefined, generation: number): boolean
}

/** Events of one Service, or of none. */
export interface ServiceEvents {
  /** `namespace/name`. */
  readonly service: string | undefined
  /** The time of the oldest one. */
  readonly sinceMs: number
  readonly objects: NameList
  /** Unix milliseconds at which its endpoints changed in the cluster. */
  readonly triggersMs: readonly number[]
}

/** Greatest number of trigger times of a list, while the kernel refuses. More of them add no information. */
const mostTriggers = 10_000

/** Greatest number of Services of a list: some 9 MB. Events of further ones count as of no Service, and wait for all service ports. */
const mostServices = 20_000

/** Events that wait together. */
export class EventList {
  /** The objects of all events. */
  readonly objects: NameList
  /** The time of the oldest one; undefined: there is none with a time. */
  #sinceMs: number | undefined
  readonly #services = new Map<string | undefined, ServiceEvents & { triggersMs: number[] }>()
  #triggerCount = 0

  constructor(objects = new NameList()) {
    this.objects = objects
  }

  get sinceMs(): number | undefined {
    return this.#sinceMs
  }

  /** The events by Service, in the order in which the first one of each came. */
  get services(): Iterable<ServiceEvents> {
    return this.#services.values()
  }

  /** Events came at this time. */
  begin(nowMs: number): void {
    this.#sinceMs ??= nowMs
  }

  /** A change of the Service came. `change`: an object's. */
  note(service: string | undefined, nowMs: number, change?: ObjectChange): void {
    const { objects } = this.#of(service, nowMs)
    if (change === undefined) return
    noteObject(this.objects, change)
    noteObject(objects, change)
  }

  /** An endpoint of the Service changed in the cluster at this time, in Unix milliseconds. Follows `note` of the same change. */
  noteTrigger(service: string | undefined, ms: number): void {
    const events = this.#services.get(service)
    if (events === undefined || this.#triggerCount >= mostTriggers) return
    events.triggersMs.push(ms)
    this.#triggerCount++
  }

  /** The trigger times of the Service count no more. */
  forgetTriggers(service: string): void {
    const events = this.#services.get(service)
    if (events === undefined) return
    this.#triggerCount -= events.triggersMs.length
    events.triggersMs = []
  }

  /** Adds later events. */
  addAll(later: EventList): void {
    this.#sinceMs ??= later.#sinceMs
    this.objects.addAll(later.objects.names)
    for (const { service, sinceMs, objects, triggersMs } of later.#services.values()) {
      this.#of(service, sinceMs).objects.addAll(objects.names)
      for (const ms of triggersMs) this.noteTrigger(service, ms)
    }
  }

  #of(service: string | undefined, nowMs: number): ServiceEvents {
    const known = this.#services.get(service)
    if (known !== undefined) return known
    if (this.#services.size >= mostServices && service !== undefined) return this.#of(undefined, nowMs)
    const events = { service, sinceMs: nowMs, objects: new NameList(), triggersMs: [] }
    this.#services.set(service, events)
    return events
  }
}

/** The Service, `namespace/name`, whose ports the change concerns. undefined: it is known by the object that the change is about. */
export function serviceOf(change: Change): string | undefined {
  if (change.type === 'slice-gone' || change.type === 'waiting') return change.service
  if (change.type === 'delete')
    return change.kind === 'Service' ? `${change.key.namespace}/${change.key.name}` : undefined
  const { object } = change
  if (object.kind === 'Service') return `${object.namespace}/${object.name}`
  if (object.kind !== 'EndpointSlice' || object.serviceName === undefined) return undefined
  return `${object.namespace}/${object.serviceName}`
}
