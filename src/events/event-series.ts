// An Event of the API, and its count: repeated reports become one Event, by the rules of client-go (k8s.io/client-go/tools/events
// event_broadcaster.go). The limits are from the validation: pkg/apis/core/validation/events.go.
import type { EventReport } from '../event.js'

const controller = 'kube-proxy'
const longestInstance = 128
const longestName = 253
const longestNoteBytes = 1024

/** The reporting node, and the time of the report. */
interface EventOrigin {
  readonly nodeName: string
  readonly unixMs: number
  /** From 0 to below 1. The name of an Event contains its time; nodes that report the same Service at once need different names. */
  readonly random: number
}

/** The count of an Event that was reported more than once. */
interface Repetition {
  readonly count: number
  readonly lastUnixMs: number
}

export interface EventObject extends EventReport {
  readonly apiVersion: 'events.k8s.io/v1'
  readonly kind: 'Event'
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly eventTime: string
  readonly reportingController: string
  readonly reportingInstance: string
}

/** Makes the Event of a first report. */
export function eventObject(report: EventReport, { nodeName, unixMs, random }: EventOrigin): EventObject {
  const { regarding, note } = report
  return {
    ...report,
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    // As in client-go, an object without a namespace is reported in this one.
    metadata: {
      name: nameOf(regarding.name, unixMs, random),
      namespace: regarding.namespace ?? 'default',
    },
    eventTime: microTime(unixMs),
    note: cut(note),
    reportingController: controller,
    reportingInstance: `${controller}-${nodeName}`.slice(0, longestInstance),
  }
}

/** The field `series`. */
export function seriesField({ count, lastUnixMs }: Repetition): object {
  return { series: { count, lastObservedTime: microTime(lastUnixMs) } }
}

/** As in client-go: `NAME.UNIX-NANOSECONDS-IN-HEX`. */
function nameOf(object: string, unixMs: number, random: number): string {
  const nanoseconds = BigInt(Math.floor(unixMs)) * 1_000_000n + BigInt(Math.floor(random * 1_000_000))
  const moment = nanoseconds.toString(16)
  const name = `${object}.${moment}`
  return name.length > longestName ? `${controller}.${moment}` : name
}

/** Go's MicroTime reads exactly six decimals of a second. */
function microTime(unixMs: number): string {
  return new Date(unixMs).toISOString().replace('Z', '000Z')
}

/** Cuts a note at the end of a character. */
function cut(note: string): string {
  const bytes = Buffer.from(note)
  if (bytes.length <= longestNoteBytes) return note
  let end = longestNoteBytes
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}

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

interface Moment {
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
