// Repeated reports become one Event with a count, by client-go's rules (k8s.io/client-go/tools/events event_broadcaster.go).
import type { EventReport } from '../event.js'
import type { EventObject, Repetition } from './event-object.js'

/** A series without a report for this time is over. Also the period of the sweep. */
export const seriesEndMs = 6 * 60_000
// The API server forgets an Event after an hour.
const refreshMs = 30 * 60_000

/** One Event and its count. */
export class EventSeries implements Repetition {
  readonly key: string
  readonly event: EventObject
  count = 1
  lastUnixMs: number
  lastMs: number
  /** The count that the server has; 0: it does not have the Event. */
  sentCount = 0
  sentMs = 0

  constructor(key: string, event: EventObject, at: Moment) {
    this.key = key
    this.event = event
    this.lastMs = at.ms
    this.lastUnixMs = at.unixMs
  }
}

export interface Moment {
  /** From Clock.now(). */
  readonly ms: number
  readonly unixMs: number
}

/** The current series. Reports that differ only in their note are equal: a Service that loses ten frontends is one Event. */
export class SeriesTable {
  readonly #series = new Map<string, EventSeries>()

  get size(): number {
    return this.#series.size
  }

  /** Counts a report. Returns the series if it must be sent now. */
  note(report: EventReport, at: Moment, makeEvent: () => EventObject): EventSeries | undefined {
    const key = keyOf(report)
    const known = this.#series.get(key)
    if (known === undefined) {
      const series = new EventSeries(key, makeEvent(), at)
      this.#series.set(key, series)
      return series
    }
    known.count += 1
    known.lastMs = at.ms
    known.lastUnixMs = at.unixMs
    return known.count === 2 ? known : undefined
  }

  /** Forgets a series. The next report begins a new one. */
  forget(series: EventSeries): void {
    if (this.#series.get(series.key) === series) this.#series.delete(series.key)
  }

  /**
   * Forgets the series that are over. Returns the series whose count the server lacks, or will soon forget; not those that it never
   * had, because they are pending already.
   */
  sweep(nowMs: number): readonly EventSeries[] {
    const due: EventSeries[] = []
    for (const [key, series] of this.#series) {
      const isOver = nowMs - series.lastMs >= seriesEndMs
      if (isOver) this.#series.delete(key)
      const isFaint = series.count > 1 && nowMs - series.sentMs >= refreshMs
      const isDue = isOver ? series.count > series.sentCount : isFaint
      if (isDue && series.sentCount > 0) due.push(series)
    }
    return due
  }
}

function keyOf({ type, reason, action, regarding }: EventReport): string {
  return JSON.stringify([type, reason, action, regarding.kind, regarding.namespace, regarding.name])
}
