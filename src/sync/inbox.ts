import type { ObjectEvent } from '../source/index.js'

type Take = (events: readonly ObjectEvent[]) => void

/** Keeps events until somebody is there to take them: the world is read while the kernel is made ready. */
export class Inbox {
  #early: (readonly ObjectEvent[])[] = []
  #take: Take = (events) => this.#early.push(events)

  deliver(events: readonly ObjectEvent[]): void {
    this.#take(events)
  }

  /** Hands over what came, in its order, and whatever comes from now on. */
  open(take: Take): void {
    const early = this.#early
    this.#early = []
    this.#take = take
    for (const events of early) take(events)
  }
}
