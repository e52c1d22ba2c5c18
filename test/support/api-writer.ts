// Writes objects, lists and events of the Kubernetes API, in protobuf and in JSON. src/ only reads them.
import {
  apiVersions,
  documentOf,
  itemsOf,
  shapes,
  type Document,
  type Shape,
  type Type,
} from './api-shapes.js'

/** The server's side of one encoding. */
export interface ApiWriter {
  readonly type: string
  readonly watchType: string
  /** `apiVersion`: default, the newest one of the kind; also in `event`. */
  list(
    kind: keyof typeof shapes,
    items: readonly Document[],
    metadata: ListMetadata,
    apiVersion?: string,
  ): Buffer
  /** An event of a watch, with its frame. */
  event(type: string, kind: keyof typeof shapes, object: Document, apiVersion?: string): Buffer
  status(status: Document): Buffer
}

export interface ListMetadata {
  readonly resourceVersion: string
  readonly continue: string
}

export const jsonWriter: ApiWriter = {
  type: 'application/json',
  watchType: 'application/json',
  list(kind, items, metadata, apiVersion = apiVersions[kind]) {
    const list = {
      kind: `${kind}List`,
      apiVersion,
      metadata,
      items: items.map((item) => jsonOf(shapes[kind], item)),
    }
    return Buffer.from(JSON.stringify(list))
  },
  event: (type, kind, object, apiVersion) =>
    Buffer.from(`${JSON.stringify({ type, object: typedJson(kind, object, apiVersion) })}\n`),
  status: (status) => Buffer.from(JSON.stringify(typedJson('Status', status))),
}

export const protobufWriter: ApiWriter = {
  type: 'application/vnd.kubernetes.protobuf',
  watchType: 'application/vnd.kubernetes.protobuf;stream=watch',
  list(kind, items, { resourceVersion, continue: token }, apiVersion = apiVersions[kind]) {
    const listMetadata = Buffer.concat([field(2, Buffer.from(resourceVersion)), field(3, Buffer.from(token))])
    const written = items.map((item) => field(2, protobufOf(shapes[kind], item)))
    return envelope(`${kind}List`, apiVersion, Buffer.concat([field(1, listMetadata), ...written]))
  },
  event: (type, kind, object, apiVersion) =>
    frame(watchEvent(type, objectEnvelope(kind, object, apiVersion))),
  status: (status) => objectEnvelope('Status', status),
}

/** The result of JSON.parse() for an object that the API server wrote. */
export function typedJson(
  kind: keyof typeof shapes,
  object: Document,
  apiVersion: string = apiVersions[kind],
): Document {
  return { kind, apiVersion, ...jsonOf(shapes[kind], object) }
}

/** An object with the envelope that begins each body. */
export function objectEnvelope(
  kind: keyof typeof shapes,
  object: Document,
  apiVersion: string = apiVersions[kind],
): Buffer {
  return envelope(kind, apiVersion, protobufOf(shapes[kind], object))
}

/** The fields before the bytes of an object or a list. */
export function envelope(kind: string, apiVersion: string, raw: Buffer): Buffer {
  const typeMeta = Buffer.concat([field(1, Buffer.from(apiVersion)), field(2, Buffer.from(kind))])
  const unknown = [field(1, typeMeta), field(2, raw), field(3, Buffer.alloc(0)), field(4, Buffer.alloc(0))]
  return Buffer.concat([Buffer.from('k8s\0'), ...unknown])
}

/** An event of a watch in protobuf. `raw`: the object in its envelope. */
export function watchEvent(type: string, raw: Buffer): Buffer {
  return Buffer.concat([field(1, Buffer.from(type)), field(2, field(1, raw))])
}

/** The bytes after their length in four bytes. */
export function frame(bytes: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

/** The content of an envelope. */
export function protobufOf(shape: Shape, document: Document): Buffer {
  const fields = Object.entries(shape).flatMap(([name, [number, type, inner = {}]]) =>
    protobufField(number, type, inner, document[name]),
  )
  return Buffer.concat(fields)
}

function protobufField(number: number, type: Type, inner: Shape, value: unknown): Buffer[] {
  if (type.endsWith('?') && value === undefined) return []
  if (type.startsWith('string') && !type.startsWith('strings')) {
    return [field(number, Buffer.from(typeof value === 'string' ? value : ''))]
  }
  if (type.startsWith('int')) return [numberField(number, typeof value === 'number' ? value : 0)]
  if (type.startsWith('bool')) return [numberField(number, value === true ? 1 : 0)]
  if (type.startsWith('struct')) return [field(number, protobufOf(inner, documentOf(value)))]
  if (type === 'time?') return [field(number, numberField(1, Date.parse(String(value)) / 1000))]
  if (type === 'map') return mapFields(number, documentOf(value))
  if (type.startsWith('strings'))
    return itemsOf(value).map((item) => field(number, Buffer.from(String(item))))
  return itemsOf(value).map((item) => field(number, protobufOf(inner, documentOf(item))))
}

function mapFields(number: number, map: Document): Buffer[] {
  return Object.entries(map).map(([key, value]) =>
    field(number, Buffer.concat([field(1, Buffer.from(key)), field(2, Buffer.from(String(value)))])),
  )
}

/** A field of wire type 2: bytes with their length. */
export function field(number: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([varint(BigInt(number * 8 + 2)), varint(BigInt(bytes.length)), bytes])
}

/** A field of wire type 0; negative numbers take ten bytes. */
export function numberField(number: number, value: number): Buffer {
  return Buffer.concat([varint(BigInt(number * 8)), varint(BigInt.asUintN(64, BigInt(value)))])
}

export function varint(value: bigint): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  bytes.push(Number(rest))
  return Buffer.from(bytes)
}

function jsonOf(shape: Shape, document: Document): Document {
  const json: Record<string, unknown> = {}
  for (const [name, [, type, inner = {}]] of Object.entries(shape)) {
    const value = jsonValue(type, inner, document[name])
    if (value !== undefined) json[name] = value
  }
  return json
}

function jsonValue(type: Type, inner: Shape, value: unknown): unknown {
  if (type === 'struct') return jsonOf(inner, documentOf(value))
  if (type === 'struct?') return value === undefined ? undefined : jsonOf(inner, documentOf(value))
  if (type === 'time?') return value
  if (type === 'map') return Object.keys(documentOf(value)).length > 0 ? value : undefined
  if (type.startsWith('strings') || type.startsWith('list')) {
    const items = itemsOf(value)
    if (items.length === 0) return type.endsWith('!') ? null : undefined
    return type.startsWith('list') ? items.map((item) => jsonOf(inner, documentOf(item))) : items
  }
  if (type.endsWith('?')) return value
  const zero = type.startsWith('string') ? '' : type.startsWith('bool') ? false : 0
  if (type.endsWith('!')) return value ?? zero
  return value === zero ? undefined : value
}
