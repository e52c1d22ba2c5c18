// The common shape of both encodings of the API.
import type { Splitter } from './frames.js'
import type { FieldProblem, Message } from './protobuf.js'

/** One object of an answer. */
export interface WireObject {
  /** The object in the shape of JSON. With a `problem`, the part before it. */
  readonly document: unknown
  /** The reason why the object could not be read to its end; undefined: it could. */
  readonly problem: FieldProblem | undefined
}

/** The end of a list: its metadata, and the objects that are left. */
export interface ListEnd {
  readonly version: string
  /** Empty: this is the last page. */
  readonly continueToken: string
  /** The objects that no push() returned. */
  readonly items: readonly WireObject[]
}

/** Reads one list, in chunks. */
export interface ListReader {
  /** The objects that this chunk completes; the format decides whether all come at the end. */
  push(chunk: Buffer): readonly WireObject[]
  /** Ends the list. Throws FormatError if it is incomplete. */
  end(): ListEnd
}

/** The fields of metav1.Status that are used. */
export interface Status {
  /** 0: absent. */
  readonly code: number
  readonly reason: string
  readonly message: string
  /** 0: absent. */
  readonly retryAfterSeconds: number
  /** The reasons of its causes. */
  readonly causes: readonly string[]
}

export type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'; readonly object: WireObject }
  | { readonly type: 'ERROR'; readonly status: Status }

/** The bytes are not valid in this format. */
export class FormatError extends Error {
  override readonly name = 'FormatError'
}

/** The type of the objects in a list or a watch. */
export interface ExpectedType {
  readonly kind: string
  /** Group and version, as the objects name them. */
  readonly apiVersion: string
  /** The fields to read. */
  readonly message: Message
}

/**
 * One encoding of the API. Pure. Its functions throw FormatError or FrameError for invalid bytes, and for another type than expected:
 * a list of another type must not pass for an empty list.
 */
export interface WireFormat {
  openSplitter(): Splitter
  openList(expected: ExpectedType): ListReader
  readEvent(frame: Buffer, expected: ExpectedType): WatchEvent
  readStatus(body: Buffer): Status
}

// The type comes from the answer, so its length in a message is limited.
const longestType = 100

/** Compares the kind, group and version of a body or an object with the expected ones. Throws FormatError. */
export function assertType(
  what: string,
  actual: { readonly kind?: unknown; readonly apiVersion?: unknown },
  expected: { readonly kind: string; readonly apiVersion: string },
): void {
  const [kind, apiVersion] = [textOf(actual.kind), textOf(actual.apiVersion)]
  if (kind === expected.kind && apiVersion === expected.apiVersion) return
  const found =
    kind === '' && apiVersion === '' ? 'without a kind' : `${apiVersion} ${kind}`.slice(0, longestType)
  throw new FormatError(`${what} is ${found}, not ${expected.apiVersion} ${expected.kind}`)
}

/** Reads a Status. A field of a wrong type counts as absent, so that it does not hide the error. */
export function statusOf(document: unknown): Status {
  const fields = isMapping(document) ? document : {}
  const details = isMapping(fields['details']) ? fields['details'] : {}
  const causes: readonly unknown[] = Array.isArray(details['causes']) ? details['causes'] : []
  return {
    code: numberOf(fields['code']),
    reason: textOf(fields['reason']),
    message: textOf(fields['message']),
    retryAfterSeconds: numberOf(details['retryAfterSeconds']),
    causes: causes.map((cause) => (isMapping(cause) ? textOf(cause['reason']) : '')),
  }
}

/** The type of an event with an object. Throws FormatError for another type. */
export function objectEventType(type: unknown): 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' {
  if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED' || type === 'BOOKMARK') return type
  throw new FormatError(`an event of unknown type ${JSON.stringify(type)}`)
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The text, or an empty text for another value. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function numberOf(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0
}
