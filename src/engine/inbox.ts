import type { ObjectEvent } from '../source/index.js'
import type { Clock } from '../clock.js'

type Take = (events: readonly ObjectEvent[]) => void

/** Keeps events until the synchronizer is open: objects are listed while the kernel is prepared. */
export class Inbox {
  readonly #clock: Pick<Clock, 'pause'>
  readonly #early: (readonly ObjectEvent[])[] = []
  #take: Take = (events) => this.#early.push(events)

  constructor(clock: Pick<Clock, 'pause'>) {
    this.#clock = clock
  }

  deliver(events: readonly ObjectEvent[]): void {
    this.#take(events)
  }

  /** Hands over what came, in its order and its turns, and whatever comes from now on. Resolves when nothing waits any more. */
  async open(take: Take): Promise<void> {
    for (let events = this.#early.shift(); events !== undefined; events = this.#early.shift()) {
      take(events)
      await this.#clock.pause()
    }
    this.#take = take
  }
}
