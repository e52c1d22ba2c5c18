// Reads protocol buffers by tables, which name only the fields in use; it skips all other fields. The result has the shape of the
// JSON document, so that one set of readers checks both.
import { CommonTexts } from './common-texts.js'

/** One wrong field: its path (dotted), and what would be right. */
export interface FieldProblem {
  readonly path: string
  readonly problem: string
}

/** The fields of a message, by their JSON names. */
export type Fields = Record<string, unknown>

/** How one field is read. */
export type Field = { readonly name: string } &
  /**
   * dropsZero: JSON omits a zero or an empty text (`omitempty` on a Go field that is not a pointer), and so does the reader.
   * isCommon: many objects have the same text in this field.
   */
  (
    | { readonly read: 'text'; readonly dropsZero: boolean; readonly isCommon: boolean }
    | { readonly read: 'whole'; readonly dropsZero: boolean }
    | { readonly read: 'flag' }
    /** A metav1.Time; becomes the text that JSON has: RFC 3339, whole seconds. The reader drops a zero time. */
    | { readonly read: 'time' }
    /** `bytes` is a view of an embedded message, `views` are the views of a list. `presence` becomes an empty text. */
    | { readonly read: 'texts' | 'presence' | 'bytes' | 'views' }
    | { readonly read: 'message' | 'messages'; readonly message: Message }
    /** A map of texts. The reader keeps only these keys. */
    | { readonly read: 'map'; readonly keys: ReadonlySet<string> }
  )

/** The fields of a message, by their numbers. */
export type Message = readonly (Field | undefined)[]

export function message(fields: Readonly<Record<number, Field>>): Message {
  const numbers = Object.keys(fields).map(Number)
  return Array.from({ length: Math.max(...numbers) + 1 }, (_, number) => alike(fields[number]))
}

/** Gives every field the same properties in the same order: V8 reads objects of one shape faster. */
function alike(field: Field | undefined): Field | undefined {
  const all = { name: '', read: '', dropsZero: false, isCommon: false, message: undefined, keys: undefined }
  return field === undefined ? undefined : Object.assign(all, field)
}

/** The bytes are not a valid message of the expected kind. */
export class MalformedError extends Error {
  override readonly name = 'MalformedError'
  /** Dotted path of the field; empty: the message itself. */
  readonly path: string
  readonly problem: string

  constructor(path: string, problem: string) {
    super(path === '' ? problem : `${path}: ${problem}`)
    this.path = path
    this.problem = problem
  }

  /** The same error, with its path from the outer message. */
  inside(step: string): MalformedError {
    if (this.path === '') return new MalformedError(step, this.problem)
    return new MalformedError(`${step}.${this.path}`, this.problem)
  }
}

/** Reads a whole message into `into`. Throws MalformedError; `into` then holds the fields before the error. */
export function readMessage(wanted: Message, bytes: Buffer, into: Fields): void {
  new Reader(bytes).readInto(wanted, bytes.length, into)
}

/** As readMessage(), with the problem as a value. */
export function tryMessage(wanted: Message, bytes: Buffer, into: Fields): FieldProblem | undefined {
  try {
    readMessage(wanted, bytes, into)
    return undefined
  } catch (error) {
    if (!(error instanceof MalformedError)) throw error
    return { path: error.path, problem: error.problem }
  }
}

// Wire types: https://protobuf.dev/programming-guides/encoding/. Groups (3 and 4) are in no Kubernetes message.
const varint = 0
const eightBytes = 1
const delimited = 2
const fourBytes = 5

const largestVarintLength = 10
const cutOff = 'is cut off'

/** ECMA-262, Time Values and Time Range. */
const largestDateSeconds = 8.64e12

const commonTexts = new CommonTexts()

class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  readInto(wanted: Message, end: number, into: Fields): void {
    let field: Field | undefined
    try {
      while (this.#at < end) {
        const tag = this.#readNumber(end)
        const number = Math.floor(tag / 8)
        const wireType = tag % 8
        field = number < wanted.length ? wanted[number] : undefined
        if (field === undefined) this.#skip(number, wireType, end)
        else this.#readField(field, wireType, end, into)
      }
    } catch (error) {
      if (!(error instanceof MalformedError) || field === undefined) throw error
      throw error.inside(stepOf(field, into))
    }
  }

  #readField(field: Field, wireType: number, end: number, into: Fields): void {
    if (field.read !== 'whole' && field.read !== 'flag') {
      if (wireType === delimited) return this.#readDelimited(field, this.#readLength(end), into)
      throw new MalformedError('', `must have a length, not be of wire type ${wireType}`)
    }
    if (wireType !== varint) throw new MalformedError('', `must be a number, not of wire type ${wireType}`)
    const value = this.#readInt32(end)
    if (field.read === 'flag') into[field.name] = value !== 0
    else if (value !== 0 || !field.dropsZero) into[field.name] = value
  }

  #readDelimited(field: Exclude<Field, { read: 'whole' | 'flag' }>, valueEnd: number, into: Fields): void {
    switch (field.read) {
      case 'text': {
        const text = field.isCommon ? this.#readCommonText(valueEnd) : this.#readText(valueEnd)
        if (text !== '' || !field.dropsZero) into[field.name] = text
        return
      }
      case 'texts':
        append(into, field.name, this.#readText(valueEnd))
        return
      case 'message':
        return this.readInto(field.message, valueEnd, fieldsIn(into, field.name))
      case 'messages': {
        const item: Fields = {}
        append(into, field.name, item)
        return this.readInto(field.message, valueEnd, item)
      }
      case 'map':
        return this.#readEntry(field.keys, valueEnd, fieldsIn(into, field.name))
      case 'time': {
        const text = this.#readTime(valueEnd)
        if (text !== '') into[field.name] = text
        return
      }
      case 'presence':
        into[field.name] = ''
        this.#at = valueEnd
        return
      case 'bytes':
        into[field.name] = this.#readView(valueEnd)
        return
      case 'views':
        append(into, field.name, this.#readView(valueEnd))
    }
  }

  /** An entry of a map is a message: field 1 is the key, field 2 the value. */
  #readEntry(keys: ReadonlySet<string>, end: number, into: Fields): void {
    const entry: { key?: string; value?: string } = {}
    this.readInto(mapEntry, end, entry)
    const { key = '', value = '' } = entry
    if (keys.has(key)) into[key] = value
  }

  /** Field 1 is the seconds since 1970. Empty: no time, or one that a Date cannot hold. */
  #readTime(end: number): string {
    let seconds = 0
    while (this.#at < end) {
      const tag = this.#readNumber(end)
      if (tag === 8) seconds = this.#readNumber(end)
      else this.#skip(Math.floor(tag / 8), tag % 8, end)
    }
    return seconds === 0 || seconds > largestDateSeconds
      ? ''
      : `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`
  }

  #skip(number: number, wireType: number, end: number): void {
    if (number === 0) throw new MalformedError('', 'holds a field of number 0')
    if (wireType === varint) this.#readNumber(end)
    else if (wireType === delimited) this.#at = this.#readLength(end)
    else if (wireType === eightBytes) this.#at += 8
    else if (wireType === fourBytes) this.#at += 4
    else throw new MalformedError('', `holds a field of wire type ${wireType} (number ${number})`)
    if (this.#at > end) throw new MalformedError('', cutOff)
  }

  #readText(end: number): string {
    const text = this.#bytes.toString('utf8', this.#at, end)
    this.#at = end
    return text
  }

  #readCommonText(end: number): string {
    const text = commonTexts.read(this.#bytes, this.#at, end)
    this.#at = end
    return text
  }

  #readView(end: number): Buffer {
    const view = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return view
  }

  /** Reads a length. Returns the end of the value that follows. */
  #readLength(end: number): number {
    const length = this.#readNumber(end)
    const valueEnd = this.#at + length
    if (valueEnd > end) throw new MalformedError('', cutOff)
    return valueEnd
  }

  /** Reads an unsigned number, exact up to 2^53. Lengths and field numbers are smaller. */
  #readNumber(end: number): number {
    let value = 0
    let scale = 1
    for (let length = 0; length < largestVarintLength; length++) {
      const byte = this.#readByte(end)
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
      scale *= 128
    }
    throw new MalformedError('', 'holds a number of more than 10 bytes')
  }

  /** Reads the low 32 bits with their sign, as Go's conversion to int32. */
  #readInt32(end: number): number {
    let value = 0
    for (let shift = 0; shift < 7 * largestVarintLength; shift += 7) {
      const byte = this.#readByte(end)
      if (shift < 32) value |= (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new MalformedError('', 'holds a number of more than 10 bytes')
  }

  #readByte(end: number): number {
    const byte = this.#at < end ? this.#bytes[this.#at] : undefined
    if (byte === undefined) throw new MalformedError('', cutOff)
    this.#at += 1
    return byte
  }
}

const mapEntry = message({
  1: { name: 'key', read: 'text', dropsZero: false, isCommon: true },
  2: { name: 'value', read: 'text', dropsZero: false, isCommon: false },
})

/** Appends to the list in `into`. The first list has room for one value, which is enough for most lists. */
function append(into: Fields, name: string, item: unknown): void {
  const list = into[name]
  if (Array.isArray(list)) list.push(item)
  else into[name] = [item]
}

function fieldsIn(into: Fields, name: string): Fields {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same field made it, so it is of the same kind
  return (into[name] ??= {}) as Fields
}

/** The path of a field: `ports[2]` for the last value of a list, else `name`. */
function stepOf(field: Field, into: Fields): string {
  const value = into[field.name]
  return Array.isArray(value) && value.length > 0 ? `${field.name}[${value.length - 1}]` : field.name
}
