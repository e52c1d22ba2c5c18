import type { FieldProblem } from '../readers/fields.js'
import { LengthSplitter } from './frames.js'
import { listMessage, statusMessage, unknownMessage, watchEventMessage } from './messages.js'
import { tryMessage, type Fields, type Message } from './protobuf.js'
import {
  FormatError,
  objectEventType,
  statusOf,
  type ListPage,
  type Status,
  type WatchEvent,
  type WireFormat,
  type WireObject,
} from './wire-format.js'

// Every body, and every object of an event, begins with it (k8s.io/apimachinery runtime/serializer/protobuf).
const magic = Buffer.from('k8s\0', 'latin1')

const nothing = Buffer.alloc(0)

/** application/vnd.kubernetes.protobuf. */
export const protobufFormat: WireFormat = {
  openSplitter: () => new LengthSplitter(),

  readList(body, wanted): ListPage {
    const list: { metadata?: { resourceVersion?: string; continue?: string }; items?: readonly Buffer[] } = {}
    assertRead(tryMessage(listMessage, openEnvelope(body, 'the list'), list), 'the list')
    const { metadata = {}, items = [] } = list
    return {
      version: metadata.resourceVersion ?? '',
      continueToken: metadata.continue ?? '',
      items: items.map((item) => readObject(wanted, item)),
    }
  },

  readEvent(frame, wanted): WatchEvent {
    const event: { type?: string; object?: { raw?: Buffer } } = {}
    assertRead(tryMessage(watchEventMessage, frame, event), 'an event')
    const raw = event.object?.raw ?? nothing
    if (event.type === 'ERROR') return { type: event.type, status: readStatus(raw) }
    return { type: objectEventType(event.type), object: readObject(wanted, openEnvelope(raw, 'an object')) }
  },

  readStatus,
}

function readObject(wanted: Message, bytes: Buffer): WireObject {
  const document: Fields = {}
  const problem = tryMessage(wanted, bytes, document)
  return { document, problem }
}

function readStatus(body: Buffer): Status {
  const status: Fields = {}
  assertRead(tryMessage(statusMessage, openEnvelope(body, 'the status'), status), 'the status')
  return statusOf(status)
}

/** What is in the envelope that says kind and version, which the request has chosen already. */
function openEnvelope(body: Buffer, what: string): Buffer {
  if (!body.subarray(0, magic.length).equals(magic))
    throw new FormatError(`${what} is not Kubernetes protobuf`)
  const envelope: { raw?: Buffer } = {}
  assertRead(tryMessage(unknownMessage, body.subarray(magic.length), envelope), what)
  return envelope.raw ?? nothing
}

function assertRead(found: FieldProblem | undefined, what: string): void {
  if (found === undefined) return
  const where = found.path === '' ? what : `${what}: ${found.path}`
  throw new FormatError(`${where}: ${found.problem}`)
}
