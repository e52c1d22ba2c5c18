// Protocol buffers, read by tables that name only the fields that are wanted: everything else is skipped without a look.
// What comes out has the shape that JSON would have, so that one set of readers checks both.
import { CommonTexts } from './common-texts.js'

/** One wrong field: its path (dotted), and what would be right. */
export interface FieldProblem {
  readonly path: string
  readonly problem: string
}

/** What was read of a message, by the names that JSON has. */
export type Fields = Record<string, unknown>

/** How one field is read. */
export type Field = { readonly name: string } &
  /**
   * dropsZero: JSON leaves a zero or an empty text out (`omitempty` of a Go field that is no pointer), so the reader does too.
   * isCommon: many objects have the same text there.
   */
  (
    | { readonly read: 'text'; readonly dropsZero: boolean; readonly isCommon: boolean }
    | { readonly read: 'whole'; readonly dropsZero: boolean }
    | { readonly read: 'flag' }
    /** `bytes` is the view of an embedded message; `views` one for each of a list. `presence` becomes an empty text. */
    | { readonly read: 'texts' | 'presence' | 'bytes' | 'views' }
    | { readonly read: 'message' | 'messages'; readonly message: Message }
    /** A map of texts, of which only these keys are kept. */
    | { readonly read: 'map'; readonly keys: ReadonlySet<string> }
  )

/** Fields by their numbers. */
export type Message = readonly (Field | undefined)[]

export function message(fields: Readonly<Record<number, Field>>): Message {
  const numbers = Object.keys(fields).map(Number)
  return Array.from({ length: Math.max(...numbers) + 1 }, (_, number) => alike(fields[number]))
}

/** With all properties that a field may have, in one order: V8 reads them faster where all objects have one shape. */
function alike(field: Field | undefined): Field | undefined {
  const all = { name: '', read: '', dropsZero: false, isCommon: false, message: undefined, keys: undefined }
  return field === undefined ? undefined : Object.assign(all, field)
}

/** The bytes are no message of the kind that was expected. */
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

  /** The same, seen from the message around. */
  inside(step: string): MalformedError {
    if (this.path === '') return new MalformedError(step, this.problem)
    return new MalformedError(`${step}.${this.path}`, this.problem)
  }
}

/** Reads a whole message into `into`. Throws MalformedError; what was read before is in `into` then, too. */
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

  /** An entry of a map is a message of its own: key 1, value 2. */
  #readEntry(keys: ReadonlySet<string>, end: number, into: Fields): void {
    const entry: { key?: string; value?: string } = {}
    this.readInto(mapEntry, end, entry)
    const { key = '', value = '' } = entry
    if (keys.has(key)) into[key] = value
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

  /** Where the value ends whose length is next. */
  #readLength(end: number): number {
    const length = this.#readNumber(end)
    const valueEnd = this.#at + length
    if (valueEnd > end) throw new MalformedError('', cutOff)
    return valueEnd
  }

  /** An unsigned number; exact up to 2^53, which is beyond every length and field number. */
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

  /** The low 32 bits with their sign, as Go converts to int32. */
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

/** To the list that grows in `into`. A list of one, as most are, has no room for more. */
function append(into: Fields, name: string, item: unknown): void {
  const list = into[name]
  if (Array.isArray(list)) list.push(item)
  else into[name] = [item]
}

function fieldsIn(into: Fields, name: string): Fields {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same field made it, so it is of the same kind
  return (into[name] ??= {}) as Fields
}

/** `ports[2]` for the last one read, `name` for a field that is no list. */
function stepOf(field: Field, into: Fields): string {
  const value = into[field.name]
  return Array.isArray(value) && value.length > 0 ? `${field.name}[${value.length - 1}]` : field.name
}
