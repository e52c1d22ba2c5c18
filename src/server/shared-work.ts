// Work that several clients request at once, such as the rendering of all metrics.
import type { Clock } from '../clock.js'

/** Pause between two pieces of work; a rendering takes some milliseconds. */
const restMs = 100

/** Runs the work once for all concurrent callers, and again after 100 ms at the earliest. It keeps no result. */
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
