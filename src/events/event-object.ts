// An Event of the API. The limits are from its validation: pkg/apis/core/validation/events.go.
import type { EventReport } from '../event.js'

const controller = 'kube-proxy'
const longestInstance = 128
const longestName = 253
const longestNoteBytes = 1024

/** The reporting node, and the time of the report. */
export interface EventOrigin {
  readonly nodeName: string
  readonly unixMs: number
  /** From 0 to below 1. The name of an Event contains its time; nodes that report the same Service at once need different names. */
  readonly random: number
}

/** The count of an Event that was reported more than once. */
export interface Repetition {
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
