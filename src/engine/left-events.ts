// Events of one family with service ports that wait for another share.
import type { ServiceEvents } from './event-list.js'

/** Events of one Service, or of none, with service ports that wait for another share. */
export interface LeftEvents extends ServiceEvents {
  /** That of the service ports that the run took which began with the events. */
  readonly generation: number
}

/** In the list, trigger times may be forgotten. */
type Held = LeftEvents & { triggersMs: readonly number[] }

/**
 * Events with service ports that wait for another share. The cost of a call does not depend on how many wait: each share asks for the
 * events of its own Services only.
 */
export class LeftEventList {
  /** Oldest first: those of a run came before those of the next one. */
  readonly #all = new Set<Held>()
  readonly #byService = new Map<string | undefined, Set<Held>>()

  /** The time of the oldest event; undefined: there is none. */
  get sinceMs(): number | undefined {
    for (const { sinceMs } of this.#all) return sinceMs
    return undefined
  }

  /** All of them. NB: those that are removed meanwhile are left out. */
  get all(): Iterable<LeftEvents> {
    return this.#all
  }

  /** Those of the Service, `namespace/name`; undefined: of no Service. */
  of(service: string | undefined): Iterable<LeftEvents> {
    return this.#byService.get(service) ?? []
  }

  /** Adds later events. */
  add(events: LeftEvents): void {
    const held = { ...events }
    this.#all.add(held)
    const own = this.#byService.get(events.service)
    if (own === undefined) this.#byService.set(events.service, new Set([held]))
    else own.add(held)
  }

  /** Removes events that `all` or `of` returned. */
  remove(events: LeftEvents): void {
    this.#all.delete(events)
    const own = this.#byService.get(events.service)
    own?.delete(events)
    if (own?.size === 0) this.#byService.delete(events.service)
  }

  /** The trigger times of the Service count no more. */
  forgetTriggers(service: string): void {
    for (const events of this.#byService.get(service) ?? []) events.triggersMs = []
  }
}
