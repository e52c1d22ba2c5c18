// The clients of /ui/events. Each gets an event when the page has changed, once per second at most.
import type { Clock } from '../clock.js'

interface WatchersOptions {
  /** A text that differs after a change of the page. Called once per second while there are clients. */
  readonly stamp: () => string
  readonly clock: Pick<Clock, 'every'>
}

/** Operators are few. */
export const clientLimit = 16
const periodMs = 1000
/** Without data for 15 s the server closes the connection, and the page says that it is not up to date. */
const periodsBetweenSigns = 5
const [changeEvent, signOfLife] = ['event: change\ndata:\n\n', 'event: alive\ndata:\n\n']

/** Nothing runs without clients. */
export class Watchers {
  readonly #options: WatchersOptions
  readonly #waiting = new Set<() => void>()
  #clients = 0
  #stamp = ''
  /** Number of changes since the first client. */
  #version = 0
  #cancel: () => void = () => {}

  constructor(options: WatchersOptions) {
    this.#options = options
  }

  get isFull(): boolean {
    return this.#clients >= clientLimit
  }

  /** The stream for one client; it ends when `signal` aborts. A client that reads slowly gets fewer events. */
  async *open(signal: AbortSignal): AsyncGenerator<string> {
    if (signal.aborted || this.isFull) return
    this.#enter()
    try {
      yield ': connected\n\n'
      let seen = this.#version
      for (let periods = 1; ; periods++) {
        await this.#nextPeriod(signal)
        if (signal.aborted) return
        const isChanged = seen !== this.#version
        seen = this.#version
        if (isChanged) yield changeEvent
        else if (periods % periodsBetweenSigns === 0) yield signOfLife
      }
    } finally {
      this.#leave()
    }
  }

  #enter(): void {
    this.#clients++
    if (this.#clients > 1) return
    this.#stamp = this.#options.stamp()
    this.#cancel = this.#options.clock.every(periodMs, () => this.#look())
  }

  #leave(): void {
    this.#clients--
    if (this.#clients === 0) this.#cancel()
  }

  #look(): void {
    const stamp = this.#options.stamp()
    if (stamp !== this.#stamp) this.#version++
    this.#stamp = stamp
    for (const wake of this.#waiting) wake()
  }

  async #nextPeriod(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        this.#waiting.delete(settle)
        signal.removeEventListener('abort', settle)
        resolve()
      }
      this.#waiting.add(settle)
      signal.addEventListener('abort', settle)
    })
  }
}
