import { LengthSplitter } from './frames.js'
import { statusMessage, unknownMessage, watchEventMessage } from './envelopes.js'
import { ProtobufListReader } from './protobuf-list.js'
import { tryMessage, type FieldProblem, type Fields, type Message } from './protobuf.js'
import {
  assertType,
  FormatError,
  objectEventType,
  statusOf,
  type ExpectedType,
  type Status,
  type WatchEvent,
  type WireFormat,
  type WireObject,
} from './wire-format.js'

// Every body, and every object of an event, begins with these bytes (k8s.io/apimachinery runtime/serializer/protobuf).
const magic = 0x6b_38_73_00 // k8s\0
const magicBytes = 4

const nothing = Buffer.alloc(0)

/** application/vnd.kubernetes.protobuf. */
export const protobufFormat: WireFormat = {
  openSplitter: () => new LengthSplitter(),

  openList: (expected) => new ProtobufListReader(expected, (bytes) => readObject(expected.message, bytes)),

  readEvent(frame, expected): WatchEvent {
    const event: { type?: string; object?: { raw?: Buffer } } = {}
    assertRead(tryMessage(watchEventMessage, frame, event), 'an event')
    const raw = event.object?.raw ?? nothing
    if (event.type === 'ERROR') return { type: event.type, status: readStatus(raw) }
    const type = objectEventType(event.type)
    return { type, object: readTypedObject(raw, expected) }
  },

  readStatus,
}

function readTypedObject(bytes: Buffer, expected: ExpectedType): WireObject {
  const { typeMeta, raw } = openEnvelope(bytes, 'an object')
  assertType('an object', typeMeta, expected)
  return readObject(expected.message, raw)
}

function readObject(wanted: Message, bytes: Buffer): WireObject {
  const document: Fields = {}
  const problem = tryMessage(wanted, bytes, document)
  return { document, problem }
}

function readStatus(body: Buffer): Status {
  const status: Fields = {}
  assertRead(tryMessage(statusMessage, openEnvelope(body, 'the status').raw, status), 'the status')
  return statusOf(status)
}

interface Envelope {
  readonly typeMeta: { readonly kind?: string; readonly apiVersion?: string }
  readonly raw: Buffer
}

function openEnvelope(body: Buffer, what: string): Envelope {
  if (body.length < magicBytes || body.readUInt32BE() !== magic)
    throw new FormatError(`${what} is not Kubernetes protobuf`)
  const envelope: Partial<Envelope> = {}
  assertRead(tryMessage(unknownMessage, body.subarray(magicBytes), envelope), what)
  const { typeMeta = {}, raw = nothing } = envelope
  return { typeMeta, raw }
}

function assertRead(found: FieldProblem | undefined, what: string): void {
  if (found === undefined) return
  const where = found.path === '' ? what : `${what}: ${found.path}`
  throw new FormatError(`${where}: ${found.problem}`)
}
