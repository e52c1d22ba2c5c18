// Reads a list in protobuf while its bytes arrive: an object is read when its last byte is there, and no more than one waits in memory.
import { Backlog, FrameError, largestFrame } from './frames.js'
import { listMessage, unknownMessage } from './envelopes.js'
import { tryMessage, type Fields, type Message } from './protobuf.js'
import {
  assertType,
  FormatError,
  type ExpectedType,
  type ListEnd,
  type ListReader,
  type WireObject,
} from './wire-format.js'

// A body begins with these bytes (k8s.io/apimachinery runtime/serializer/protobuf). A runtime.Unknown follows.
const magic = Buffer.from('k8s\0')

// Field numbers: runtime.Unknown and the lists of all kinds.
const [raw, items] = [2, 2]
// Wire types: https://protobuf.dev/programming-guides/encoding/.
const [varint, eightBytes, delimited, fourBytes] = [0, 1, 2, 5]
const largestVarintLength = 10

/** The next field of a message. Positions are offsets in the bytes that were searched. */
interface Cut {
  readonly number: number
  readonly wireType: number
  /** Where its value begins: after the length, if it has one. */
  readonly valueAt: number
  readonly end: number
}

/** Where the bytes belong that come next. */
type Part = 'magic' | 'envelope' | 'list'

/** Reads one list. `readItem` reads the bytes of an object. */
export class ProtobufListReader implements ListReader {
  readonly #expected: ExpectedType
  readonly #readItem: (bytes: Buffer) => WireObject
  readonly #backlog = new Backlog()
  /** The number of bytes to collect first, so that chunks are joined once per object. */
  #wanted = magic.length
  #part: Part = 'magic'
  /** The bytes of the list that are still to come, while `#part` is `list`. */
  #leftOfList = 0
  readonly #envelope: Fields & { typeMeta?: { kind?: string; apiVersion?: string } } = {}
  readonly #list: Fields & { metadata?: { resourceVersion?: string; continue?: string } } = {}

  constructor(expected: ExpectedType, readItem: (bytes: Buffer) => WireObject) {
    this.#expected = expected
    this.#readItem = readItem
  }

  push(chunk: Buffer): readonly WireObject[] {
    this.#backlog.add(chunk)
    if (this.#backlog.size < this.#wanted) return []
    const bytes = this.#backlog.take()
    const found: WireObject[] = []
    let at = 0
    for (let end = this.#step(bytes, at, found); end !== undefined; end = this.#step(bytes, at, found))
      at = end
    this.#backlog.add(bytes.subarray(at))
    return found
  }

  end(): ListEnd {
    const isCutOff = this.#backlog.size > 0 || this.#leftOfList > 0
    if (this.#part === 'magic') throw new FormatError('the list is not Kubernetes protobuf')
    if (isCutOff) throw new FormatError('the list is cut off')
    this.#assertType()
    const { resourceVersion = '', continue: continueToken = '' } = this.#list.metadata ?? {}
    return { version: resourceVersion, continueToken, items: [] }
  }

  /** Reads one part of the bytes from `at`. Returns its end; undefined: more bytes must come first. */
  #step(bytes: Buffer, at: number, found: WireObject[]): number | undefined {
    if (this.#part === 'magic') return this.#readMagic(bytes)
    const cut = fieldAt(bytes, at)
    if (cut === undefined) return this.#await(bytes.length - at + 1)
    if (this.#part === 'envelope' && cut.number === raw) return this.#enterList(cut)
    if (cut.end > bytes.length) return this.#await(cut.end - at)
    this.#wanted = 1
    if (this.#part === 'envelope') assertRead(unknownMessage, bytes.subarray(at, cut.end), this.#envelope)
    else this.#takeField(bytes, at, cut, found)
    return cut.end
  }

  #readMagic(bytes: Buffer): number {
    if (!bytes.subarray(0, magic.length).equals(magic))
      throw new FormatError('the list is not Kubernetes protobuf')
    this.#part = 'envelope'
    this.#wanted = 1
    return magic.length
  }

  #enterList({ wireType, valueAt, end }: Cut): number {
    if (wireType !== delimited) throw new FormatError('the list: raw: must have a length')
    this.#assertType()
    this.#leftOfList = end - valueAt
    this.#part = this.#leftOfList > 0 ? 'list' : 'envelope'
    this.#wanted = 1
    return valueAt
  }

  #takeField(bytes: Buffer, at: number, { number, wireType, valueAt, end }: Cut, found: WireObject[]): void {
    this.#leftOfList -= end - at
    if (this.#leftOfList < 0) throw new FormatError('the list is cut off')
    if (this.#leftOfList === 0) this.#part = 'envelope'
    if (number === items && wireType === delimited) found.push(this.#readItem(bytes.subarray(valueAt, end)))
    else assertRead(listMessage, bytes.subarray(at, end), this.#list)
  }

  #await(size: number): undefined {
    if (size > largestFrame) throw new FrameError(`an object of ${size} bytes: more than ${largestFrame}`)
    this.#wanted = size
  }

  #assertType(): void {
    const { kind, apiVersion } = this.#expected
    assertType('the list', this.#envelope.typeMeta ?? {}, { kind: `${kind}List`, apiVersion })
  }
}

/** The field that begins at `at`; undefined: the bytes end before its value. */
function fieldAt(bytes: Buffer, at: number): Cut | undefined {
  const tag = varintAt(bytes, at)
  if (tag === undefined) return undefined
  const number = Math.floor(tag.value / 8)
  const wireType = tag.value % 8
  if (wireType === fourBytes || wireType === eightBytes)
    return { number, wireType, valueAt: tag.end, end: tag.end + (wireType === fourBytes ? 4 : 8) }
  if (wireType !== varint && wireType !== delimited)
    throw new FormatError(`the list: holds a field of wire type ${wireType} (number ${number})`)
  const first = varintAt(bytes, tag.end)
  if (first === undefined) return undefined
  if (wireType === varint) return { number, wireType, valueAt: tag.end, end: first.end }
  return { number, wireType, valueAt: first.end, end: first.end + first.value }
}

/** An unsigned number, exact up to 2^53, and its end; undefined: the bytes end before. */
function varintAt(bytes: Buffer, at: number): { readonly value: number; readonly end: number } | undefined {
  let value = 0
  let scale = 1
  for (let length = 0; length < largestVarintLength; length++) {
    const byte = bytes[at + length]
    if (byte === undefined) return undefined
    value += (byte & 0x7f) * scale
    if (byte < 0x80) return { value, end: at + length + 1 }
    scale *= 128
  }
  throw new FormatError('the list: holds a number of more than 10 bytes')
}

/** Reads fields of a message. Throws FormatError. */
function assertRead(wanted: Message, bytes: Buffer, into: Fields): void {
  const problem = tryMessage(wanted, bytes, into)
  if (problem === undefined) return
  throw new FormatError(
    problem.path === '' ? `the list: ${problem.problem}` : `the list: ${problem.path}: ${problem.problem}`,
  )
}
