// What repeats is told as one Event with a count, by client-go's rules (k8s.io/client-go/tools/events event_broadcaster.go).
import type { EventReport } from '../event.js'
import type { EventObject, Repetition } from './event-object.js'

/** A series that has had nothing new for so long is over; also the time between two looks at them. */
export const seriesEndMs = 6 * 60_000
// The API server forgets an Event after an hour.
const refreshMs = 30 * 60_000

/** One Event, and how often it happened. */
export class EventSeries implements Repetition {
  readonly key: string
  readonly event: EventObject
  count = 1
  lastUnixMs: number
  lastMs: number
  /** What the server was told; 0: not even that there is such an Event. */
  toldCount = 0
  toldMs = 0

  constructor(key: string, event: EventObject, at: Moment) {
    this.key = key
    this.event = event
    this.lastMs = at.ms
    this.lastUnixMs = at.unixMs
  }
}

export interface Moment {
  /** Never goes back. */
  readonly ms: number
  readonly unixMs: number
}

/** The series that are not over. What makes no difference: the note. A Service that loses ten frontends is one Event. */
export class SeriesTable {
  readonly #series = new Map<string, EventSeries>()

  get size(): number {
    return this.#series.size
  }

  /** Returns the series to be sent now; undefined: it is counted alone. */
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

  /** What follows begins a series of its own. */
  forget(series: EventSeries): void {
    if (this.#series.get(series.key) === series) this.#series.delete(series.key)
  }

  /**
   * Forgets the series that are over, and returns those whose count the server has to be told, or to be reminded of. One that it was
   * never told of is none of them: that is under way already.
   */
  sweep(nowMs: number): readonly EventSeries[] {
    const untold: EventSeries[] = []
    for (const [key, series] of this.#series) {
      const isOver = nowMs - series.lastMs >= seriesEndMs
      if (isOver) this.#series.delete(key)
      const isFaint = series.count > 1 && nowMs - series.toldMs >= refreshMs
      const isDue = isOver ? series.count > series.toldCount : isFaint
      if (isDue && series.toldCount > 0) untold.push(series)
    }
    return untold
  }
}

function keyOf({ type, reason, action, regarding }: EventReport): string {
  return JSON.stringify([type, reason, action, regarding.kind, regarding.namespace, regarding.name])
}
