import { StateReporter, type Log } from '../log.js'
import type { ApiError } from '../api/index.js'
import type { EventObject } from './event-object.js'

/** A refusal without another one for this time is over. */
const quietMs = 6 * 60_000

/**
 * Reports Events that the server refused, once per status: a namespace may refuse Events while others accept them.
 */
export class Refusals {
  readonly #reporter: StateReporter
  /** Time of the last refusal, by text. */
  readonly #lastMs = new Map<string, number>()

  constructor(log: Log) {
    this.#reporter = new StateReporter({
      log,
      level: 'warn',
      problemLine: 'An Event was refused',
      recovery: 'No such Event has been refused for 6 minutes',
    })
  }

  /** Reports a refusal; `error` has a status. */
  note(error: ApiError, { metadata, regarding }: EventObject, nowMs: number): void {
    const advice =
      error.status === 403
        ? ': the agent needs the verbs create and patch for events of events.k8s.io there, or the namespace is being deleted'
        : ''
    const text = `status ${error.status}${advice}`
    const object = `${regarding.kind} ${regarding.name}`
    this.#lastMs.set(text, nowMs)
    this.#reporter.report(text, { text, fields: { namespace: metadata.namespace, object, err: error } })
  }

  sweep(nowMs: number): void {
    for (const [text, lastMs] of this.#lastMs) {
      if (nowMs - lastMs < quietMs) continue
      this.#lastMs.delete(text)
      this.#reporter.report(text, undefined)
    }
  }

  /** The number of refusals that are not over. */
  get size(): number {
    return this.#lastMs.size
  }
}
