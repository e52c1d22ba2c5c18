import { objectOf, type ObjectEvent } from '../source/index.js'
import type { Clock } from '../clock.js'

/** `waitedMs`: how long ago the first `listed` or `synced` among the events arrived; 0 after the inbox has been emptied. */
type Take = (events: readonly ObjectEvent[], waitedMs: number) => void

/** Events that came together. */
interface Batch {
  readonly events: ObjectEvent[]
  isDelivered: boolean
}

/** Where the newest change of an object is. */
interface Place {
  readonly batch: Batch
  readonly index: number
}

/**
 * Keeps events until the agent is built: objects are listed while the kernel is prepared. Of each object it keeps the newest change, at
 * the place of the first one. `listed` and `synced` come after all objects of that time, so that the first sync sees the newest facts.
 */
export class Inbox {
  readonly #clock: Pick<Clock, 'now' | 'pause'>
  readonly #early: Batch[] = []
  /** By object. */
  readonly #places = new Map<string, Place>()
  readonly #milestones: ObjectEvent[] = []
  #milestoneMs: number | undefined
  #take: Take = (events) => this.#keep(events)

  constructor(clock: Pick<Clock, 'now' | 'pause'>) {
    this.#clock = clock
  }

  deliver(events: readonly ObjectEvent[]): void {
    this.#take(events, 0)
  }

  /** Delivers the kept events, in their order and one batch per turn of the event loop, then all later ones. Resolves after the kept ones. */
  async open(take: Take): Promise<void> {
    for (let batch = this.#early.shift(); batch !== undefined; batch = this.#early.shift()) {
      batch.isDelivered = true
      take(batch.events, 0)
      await this.#clock.pause()
    }
    this.#places.clear()
    this.#take = take
    if (this.#milestoneMs !== undefined)
      take(this.#milestones.splice(0), this.#clock.now() - this.#milestoneMs)
  }

  #keep(events: readonly ObjectEvent[]): void {
    const batch: Batch = { events: [], isDelivered: false }
    for (const event of events) if (!isMilestone(event)) this.#put(event, batch)
    if (batch.events.length > 0) this.#early.push(batch)
    const milestones = events.filter(isMilestone)
    if (milestones.length === 0) return
    this.#milestones.push(...milestones)
    this.#milestoneMs ??= this.#clock.now()
  }

  /** Adds the event to the batch, unless it replaces the change of its object that waits. */
  #put(event: ObjectEvent, batch: Batch): void {
    const isChange = event.type === 'set' || event.type === 'delete'
    const object = objectOf(event)
    const place = isChange ? this.#places.get(object) : undefined
    if (place?.batch.isDelivered === false) place.batch.events[place.index] = event
    else this.#places.set(object, { batch, index: batch.events.push(event) - 1 })
  }
}

function isMilestone({ type }: ObjectEvent): boolean {
  return type === 'listed' || type === 'synced'
}
