// What both encodings of the API say, in one shape.
import type { Splitter } from './frames.js'
import type { FieldProblem, Message } from './protobuf.js'

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

/** The type of the objects in a list or a watch. */
export interface ExpectedType {
  readonly kind: string
  /** Group and version, as the objects name them. */
  readonly apiVersion: string
  /** The fields to read. */
  readonly message: Message
}

/**
 * One encoding of the API. Pure; everything throws FormatError or FrameError for what it cannot read, and for what is of another
 * type than expected: a list of something else must not be read as a world without our objects.
 */
export interface WireFormat {
  openSplitter(): Splitter
  readList(body: Buffer, expected: ExpectedType): ListPage
  readEvent(frame: Buffer, expected: ExpectedType): WatchEvent
  readStatus(body: Buffer): Status
}

// More of a text that anybody may have written says no more.
const longestType = 100

/** Kind, group and version as a body or an object says them itself. Throws FormatError when they are not as expected. */
export function assertType(
  what: string,
  said: { readonly kind?: unknown; readonly apiVersion?: unknown },
  expected: { readonly kind: string; readonly apiVersion: string },
): void {
  const [kind, apiVersion] = [textOf(said.kind), textOf(said.apiVersion)]
  if (kind === expected.kind && apiVersion === expected.apiVersion) return
  const found =
    kind === '' && apiVersion === '' ? 'of no kind' : `${apiVersion} ${kind}`.slice(0, longestType)
  throw new FormatError(`${what} is ${found}, not ${expected.apiVersion} ${expected.kind}`)
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

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Text, or empty for anything else. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function numberOf(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0
}
