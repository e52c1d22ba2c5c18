// What both encodings of the API say, in one shape.
import { isMapping, type FieldProblem } from '../readers/fields.js'
import type { Splitter } from './frames.js'
import type { Message } from './protobuf.js'

/** One object as it came. */
export interface WireObject {
  /** As JSON gives it; with a `problem`, what could be read before it. */
  readonly document: unknown
  /** Why its bytes could not be read to their end. */
  readonly problem: FieldProblem | undefined
}

export interface ListPage {
  readonly version: string
  /** Empty: it was the last page. */
  readonly continueToken: string
  readonly items: Iterable<WireObject>
}

/** metav1.Status, as far as it is read. */
export interface Status {
  /** 0: not said. */
  readonly code: number
  readonly reason: string
  readonly message: string
  /** 0: not said. */
  readonly retryAfterSeconds: number
}

export type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'; readonly object: WireObject }
  | { readonly type: 'ERROR'; readonly status: Status }

/** The body is not of this format. */
export class FormatError extends Error {
  override readonly name = 'FormatError'
}

/** One encoding of the API. Pure; everything throws FormatError or FrameError for what it cannot read. */
export interface WireFormat {
  openSplitter(): Splitter
  /** `wanted`: the objects' message. */
  readList(body: Buffer, wanted: Message): ListPage
  readEvent(frame: Buffer, wanted: Message): WatchEvent
  readStatus(body: Buffer): Status
}

/** A Status as JSON gives it. What is of a wrong type is taken for absent: an error must not hide behind another one. */
export function statusOf(document: unknown): Status {
  const fields = isMapping(document) ? document : {}
  const details = isMapping(fields['details']) ? fields['details'] : {}
  return {
    code: numberOf(fields['code']),
    reason: textOf(fields['reason']),
    message: textOf(fields['message']),
    retryAfterSeconds: numberOf(details['retryAfterSeconds']),
  }
}

/** The type of an event that holds an object. Throws FormatError for another one. */
export function objectEventType(type: unknown): 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' {
  if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED' || type === 'BOOKMARK') return type
  throw new FormatError(`an event of the unknown type ${JSON.stringify(type)}`)
}

/** Text, or empty for anything else. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function numberOf(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0
}
