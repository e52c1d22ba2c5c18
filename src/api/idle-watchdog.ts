import type { Clock } from '../clock.js'

export interface IdleTimes {
  readonly idleMs: number
  /** Default: `idleMs`. */
  readonly firstMs?: number
}

/** Calls `bark` once, after `idleMs` without a touch, but not before `firstMs` are over. A touch sets no timer. */
export class IdleWatchdog {
  readonly #clock: Clock
  readonly #idleMs: number
  readonly #bark: () => void
  #touchedAt: number
  #cancel: () => void

  constructor(clock: Clock, { idleMs, firstMs = idleMs }: IdleTimes, bark: () => void) {
    this.#clock = clock
    this.#idleMs = idleMs
    this.#bark = bark
    this.#touchedAt = clock.now()
    this.#cancel = this.#arm(firstMs)
  }

  touch(): void {
    this.#touchedAt = this.#clock.now()
  }

  stop(): void {
    this.#cancel()
  }

  #arm(delayMs: number): () => void {
    return this.#clock.schedule(delayMs, () => {
      const leftMs = this.#touchedAt + this.#idleMs - this.#clock.now()
      if (leftMs <= 0) this.#bark()
      else this.#cancel = this.#arm(leftMs)
    })
  }
}
