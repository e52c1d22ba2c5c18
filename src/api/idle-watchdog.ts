import type { Timers } from './timers.js'

/** Calls `bark` once when nothing has touched it for so long. One timer, however often it is touched. */
export class IdleWatchdog {
  readonly #timers: Timers
  readonly #idleMs: number
  readonly #bark: () => void
  #touchedAt: number
  #cancel: () => void

  constructor(timers: Timers, idleMs: number, bark: () => void) {
    this.#timers = timers
    this.#idleMs = idleMs
    this.#bark = bark
    this.#touchedAt = timers.now()
    this.#cancel = this.#arm(idleMs)
  }

  touch(): void {
    this.#touchedAt = this.#timers.now()
  }

  stop(): void {
    this.#cancel()
  }

  #arm(delayMs: number): () => void {
    return this.#timers.after(delayMs, () => {
      const leftMs = this.#touchedAt + this.#idleMs - this.#timers.now()
      if (leftMs <= 0) this.#bark()
      else this.#cancel = this.#arm(leftMs)
    })
  }
}
