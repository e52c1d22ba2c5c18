// Work that many may ask for at once, such as the rendering of all metrics.
import type { Clock } from '../clock.js'

/** Between the end of one piece of work and the start of the next: a rendering takes some milliseconds. */
const restMs = 100

/** Does the work once for all who ask before it is done, and not again before a rest of 100 ms. A result is never kept. */
export class SharedWork<T> {
  readonly #work: () => Promise<T>
  readonly #clock: Pick<Clock, 'now' | 'schedule'>
  #current: Promise<T> | undefined
  #endMs = Number.NEGATIVE_INFINITY

  constructor(work: () => Promise<T>, clock: Pick<Clock, 'now' | 'schedule'>) {
    this.#work = work
    this.#clock = clock
  }

  /** Rejects as the work does. */
  async result(): Promise<T> {
    this.#current ??= this.#run()
    return await this.#current
  }

  async #run(): Promise<T> {
    const waitMs = this.#endMs + restMs - this.#clock.now()
    if (waitMs > 0) await new Promise<void>((resolve) => this.#clock.schedule(waitMs, resolve))
    try {
      return await this.#work()
    } finally {
      this.#endMs = this.#clock.now()
      this.#current = undefined
    }
  }
}
