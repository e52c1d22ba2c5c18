import type { ObjectEvent } from '../source/index.js'
import type { Clock } from '../clock.js'

/** `waitedMs`: how long ago the first `listed` or `synced` among the events arrived; 0 after the inbox has been emptied. */
type Take = (events: readonly ObjectEvent[], waitedMs: number) => void

/**
 * Keeps events until the agent is built: objects are listed while the kernel is prepared. `listed` and `synced` come after all objects
 * of that time, so that the first sync sees the newest facts.
 */
export class Inbox {
  readonly #clock: Pick<Clock, 'now' | 'pause'>
  readonly #early: (readonly ObjectEvent[])[] = []
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
    for (let events = this.#early.shift(); events !== undefined; events = this.#early.shift()) {
      take(events, 0)
      await this.#clock.pause()
    }
    this.#take = take
    if (this.#milestoneMs !== undefined)
      take(this.#milestones.splice(0), this.#clock.now() - this.#milestoneMs)
  }

  #keep(events: readonly ObjectEvent[]): void {
    const objects = events.filter((event) => !isMilestone(event))
    if (objects.length > 0) this.#early.push(objects)
    if (objects.length === events.length) return
    this.#milestones.push(...events.filter(isMilestone))
    this.#milestoneMs ??= this.#clock.now()
  }
}

function isMilestone({ type }: ObjectEvent): boolean {
  return type === 'listed' || type === 'synced'
}
