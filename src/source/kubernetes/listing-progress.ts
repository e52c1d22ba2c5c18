import type { Log } from '../../log.js'
import type { ObjectEvent } from '../objects.js'
import type { Clock } from '../../clock.js'

/** A part of the source. Objects of an earlier run may be deleted only when all parts are listed and complete. */
export interface ListedPart {
  /** All objects of the API server have been delivered once. */
  readonly isListed: boolean
  /** No object is missing because it could not be read. */
  readonly isComplete: boolean
}

/**
 * The time for which kernel objects of an earlier run stay while an object cannot be used: time to repair the object, which the log
 * names. It has an end, because Services that were deleted while no agent ran must be removed, and the agent must become ready.
 */
const patienceMs = 600_000
/**
 * A longer time without an answer counts as silence, and not as contact: over HTTP/2 a quiet server answers a PING every 28 s, over
 * HTTP/1.1 a quiet watch is opened again within 120 s.
 */
const longestPauseMs = 120_000

export interface ListingProgressOptions {
  readonly parts: readonly ListedPart[]
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
  readonly deliver: (events: readonly ObjectEvent[]) => void
}

/** Delivers `synced` once. While a part is incomplete, delivers `listed` first. */
export class ListingProgress {
  readonly #options: ListingProgressOptions
  #lastLookMs: number | undefined
  /** Time of contact with the server since everything was listed. */
  #contactMs = 0
  #isSynced = false

  constructor(options: ListingProgressOptions) {
    this.#options = options
  }

  /** Everything has been listed, complete or not. */
  get isListed(): boolean {
    return this.#lastLookMs !== undefined
  }

  /**
   * Call it after every answer of the API server, also to a PING. NB: there is no timer, because nothing changes while the server is away.
   */
  look(): void {
    const { parts, clock, log, deliver } = this.#options
    if (this.#isSynced || !parts.every(({ isListed }) => isListed)) return
    const nowMs = clock.now()
    const isFirst = this.#lastLookMs === undefined
    this.#contactMs += Math.min(nowMs - (this.#lastLookMs ?? nowMs), longestPauseMs)
    this.#lastLookMs = nowMs
    const isComplete = parts.every((part) => part.isComplete)
    if (isComplete || this.#contactMs >= patienceMs) {
      if (!isComplete)
        log.warn('Some API objects are still not applied; their earlier kernel objects are removed')
      this.#isSynced = true
      return deliver([{ type: 'synced' }])
    }
    if (!isFirst) return
    log.warn('Some API objects are not applied; earlier kernel objects stay for 10 minutes')
    deliver([{ type: 'listed' }])
  }
}
