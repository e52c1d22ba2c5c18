import { Backlog, LineSplitter } from './frames.js'
import {
  assertType,
  FormatError,
  isMapping,
  objectEventType,
  statusOf,
  textOf,
  type ExpectedType,
  type ListEnd,
  type ListReader,
  type Status,
  type WatchEvent,
  type WireFormat,
  type WireObject,
} from './wire-format.js'

/** application/json, the fallback for servers and gateways without protobuf. */
export const jsonFormat: WireFormat = {
  openSplitter: () => new LineSplitter(),

  openList: (expected) => new JsonListReader(expected),

  readEvent(frame, expected): WatchEvent {
    const { type, object } = parse(frame, 'an event')
    if (type === 'ERROR') return { type, status: statusOf(object) }
    const eventType = objectEventType(type)
    assertType('an object', isMapping(object) ? object : {}, expected)
    return { type: eventType, object: { document: object, problem: undefined } }
  },

  readStatus(body): Status {
    return statusOf(parse(body, 'the status'))
  },
}

// A string of Node has at most 512 MB. The largest page has 500 objects of half a megabyte.
const largestList = 256 * 1024 * 1024

/** JSON.parse() needs the whole list. */
class JsonListReader implements ListReader {
  readonly #expected: ExpectedType
  readonly #backlog = new Backlog()

  constructor(expected: ExpectedType) {
    this.#expected = expected
  }

  push(chunk: Buffer): readonly WireObject[] {
    this.#backlog.add(chunk)
    if (this.#backlog.size > largestList) throw new FormatError(`the list has more than ${largestList} bytes`)
    return []
  }

  end(): ListEnd {
    const { kind, apiVersion } = this.#expected
    const list = parse(this.#backlog.take(), 'the list')
    assertType('the list', list, { kind: `${kind}List`, apiVersion })
    const { metadata, items } = list
    if (!isMapping(metadata)) throw new FormatError('the list has no metadata')
    if (items === undefined) throw new FormatError('the list has no items')
    // Go writes an empty list as null.
    if (!Array.isArray(items ?? [])) throw new FormatError('the items of the list must be a list')
    const documents: readonly unknown[] = Array.isArray(items) ? items : []
    return {
      version: textOf(metadata['resourceVersion']),
      continueToken: textOf(metadata['continue']),
      items: documents.map((document) => ({ document, problem: undefined })),
    }
  }
}

function parse(bytes: Buffer, what: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new FormatError(`${what} is not JSON`)
  }
  if (!isMapping(value)) throw new FormatError(`${what} is not a JSON object`)
  return value
}
