import type { Log } from '../../log.js'
import type { ObjectEvent } from '../objects.js'
import type { Clock } from '../../clock.js'

/** Something of which all has to be known before anything may be deleted that an earlier run has left. */
export interface KnownPart {
  /** All that the API server has was delivered once. */
  readonly isListed: boolean
  /** Nothing of it is missing because it could not be read. */
  readonly isComplete: boolean
}

/**
 * So long what the kernel has from before stays when part of the world cannot be read: time to repair an object that a line of the log
 * names. For ever would be too long: what was deleted while no agent ran would stay as well, and the agent would never be ready.
 */
const patienceMs = 600_000
/** A longer time between two words of the server is one of silence, which does not count: bookmarks come every minute. */
const longestPauseMs = 120_000

export interface KnownWorldOptions {
  readonly parts: readonly KnownPart[]
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
  readonly deliver: (events: readonly ObjectEvent[]) => void
}

/** Delivers `synced`, once; where a part is incomplete, `listed` before. */
export class KnownWorld {
  readonly #options: KnownWorldOptions
  #lastLookMs: number | undefined
  /** For how long the server has been heard since everything was listed. */
  #heardMs = 0
  #isSynced = false

  constructor(options: KnownWorldOptions) {
    this.#options = options
  }

  /** Everything has been listed, complete or not. */
  get isListed(): boolean {
    return this.#lastLookMs !== undefined
  }

  /**
   * To be called whenever the API server has told something, if only that it is there. NB: there is no timer: while the server is
   * away nothing changes.
   */
  look(): void {
    const { parts, clock, log, deliver } = this.#options
    if (this.#isSynced || !parts.every(({ isListed }) => isListed)) return
    const nowMs = clock.now()
    const isFirst = this.#lastLookMs === undefined
    this.#heardMs += Math.min(nowMs - (this.#lastLookMs ?? nowMs), longestPauseMs)
    this.#lastLookMs = nowMs
    const isComplete = parts.every((part) => part.isComplete)
    if (isComplete || this.#heardMs >= patienceMs) {
      if (!isComplete)
        log.warn('API server: what cannot be read is waited for no more: nothing of it stays in the kernel')
      this.#isSynced = true
      return deliver([{ type: 'synced' }])
    }
    if (!isFirst) return
    log.warn('API server: not all can be read; what was in the kernel before stays for 10 minutes')
    deliver([{ type: 'listed' }])
  }
}
