// Work that several clients may request at once, such as the rendering of all metrics.
import type { Clock } from '../clock.js'

/** From the end of one run to the start of the next. A rendering takes some milliseconds. */
const restMs = 100

/** Runs the work once for all callers that wait for its result, with a pause of 100 ms between runs. Results are not cached. */
export class SharedWork<T> {
  readonly #work: () => Promise<T>
  readonly #clock: Pick<Clock, 'now' | 'schedule'>
  #current: Promise<T> | undefined
  #endMs = Number.NEGATIVE_INFINITY

  constructor(work: () => Promise<T>, clock: Pick<Clock, 'now' | 'schedule'>) {
    this.#work = work
    this.#clock = clock
  }

  /** Resolves with the result of the work, or rejects with its error. */
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
