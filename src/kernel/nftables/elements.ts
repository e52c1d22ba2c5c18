import { BugError } from '../../errors.js'
import { data as dataCodec, type NfVerdict } from './data.js'
import { fieldsLength } from './fields.js'
import type { NfSet } from './sets.js'
import { StreamReader, StreamWriter } from './stream.js'

/** The layout of a set's elements in bytes (ElementLayout in native/nftables/elements.h). */
export interface ElementLayout {
  readonly keyBytes: number
  readonly dataBytes: number
  /** Bits of ElementPart: 1 end of the key, 2 flags, 4 time-out, 8 expiration. */
  readonly parts: number
  /** ElementData: 0 none, 1 a value, 2 a verdict, 3 a named object. */
  readonly data: number
}

const keyEndPart = 1
const flagsPart = 2
const timeoutPart = 4
const expirationPart = 8
const labelBytes = 4

/** By set: the sets of a schema stay the same, and each list of elements asks for its layout. */
const layouts = new WeakMap<NfSet, ElementLayout>()

/** The layout of the elements of a set. */
export function elementLayout(set: NfSet): ElementLayout {
  let layout = layouts.get(set)
  if (layout === undefined) layouts.set(set, (layout = computeLayout(set)))
  return layout
}

function computeLayout({ key, data, flags = [] }: NfSet): ElementLayout {
  const isInterval = flags.includes('interval')
  const parts =
    (isInterval && key.length > 1 ? keyEndPart : 0) |
    (isInterval && key.length === 1 ? flagsPart : 0) |
    (flags.includes('timeout') ? timeoutPart | expirationPart : 0)
  const keyBytes = fieldsLength(key)
  if (data === undefined) return { keyBytes, dataBytes: 0, parts, data: 0 }
  if (data === 'verdict') return { keyBytes, dataBytes: labelBytes, parts, data: 2 }
  if (data === 'counter') return { keyBytes, dataBytes: labelBytes, parts, data: 3 }
  return { keyBytes, dataBytes: fieldsLength(data), parts, data: 1 }
}

/** The parts of an element besides its key. */
export interface NfElementExtras {
  /** The value of an element of a map with values. */
  readonly data?: Uint8Array
  readonly verdict?: NfVerdict
  /** Name of the counter. */
  readonly counter?: string
  /** Last key of an interval of concatenations. Default: the key. */
  readonly keyEnd?: Uint8Array
  /** Set of intervals with one field: the key ends the interval before it (exclusive). It has no data and no time-out. */
  readonly isIntervalEnd?: boolean
  /** Default: the time-out of the set. */
  readonly timeoutMs?: number
  /** The remaining time. Default: the whole time-out. */
  readonly expirationMs?: number
}

const intervalEnd = 1

/** Elements of one set, packed, without an object per element. */
export class NfElements {
  readonly set: NfSet
  readonly layout: ElementLayout
  /** Bytes of an element. */
  readonly stride: number
  #bytes: Uint8Array
  #view: DataView
  #used: number
  readonly #labels: Uint8Array[] = []
  readonly #places = new Map<string, number>()

  constructor(set: NfSet, content: Uint8Array = new Uint8Array(0), labels: readonly Uint8Array[] = []) {
    this.set = set
    this.layout = elementLayout(set)
    const { keyBytes, dataBytes, parts } = this.layout
    this.stride =
      keyBytes * (parts & keyEndPart ? 2 : 1) +
      dataBytes +
      (parts & flagsPart ? 4 : 0) +
      (parts & timeoutPart ? 16 : 0)
    this.#bytes = content
    this.#view = new DataView(content.buffer, content.byteOffset, content.byteLength)
    this.#used = content.length
    for (const label of labels) this.#placeOf(label)
  }

  get length(): number {
    return this.#used / this.stride
  }

  /** All elements, one after the other; valid until the next add(). */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#used)
  }

  /** The verdicts, as objects of a stream, or the names of counters. Elements refer to them by index. */
  get labels(): readonly Uint8Array[] {
    return this.#labels
  }

  /** Throws BugError if the key, its end or the data does not fit the set. */
  add(key: Uint8Array, extras: NfElementExtras = {}): this {
    const { keyBytes, dataBytes, parts, data } = this.layout
    this.#check('key', key, keyBytes)
    if (extras.isIntervalEnd === true) return this.#addIntervalEnd(key)
    let at = this.#reserve()
    this.#bytes.set(key, at)
    at += keyBytes
    if (parts & keyEndPart) {
      const keyEnd = extras.keyEnd ?? key
      this.#check('end of the key', keyEnd, keyBytes)
      this.#bytes.set(keyEnd, at)
      at += keyBytes
    }
    if (data === 1) {
      const value = extras.data ?? new Uint8Array(0)
      this.#check('data', value, dataBytes)
      this.#bytes.set(value, at)
    } else if (data > 1) {
      this.#view.setUint32(at, this.#placeOf(this.#labelOf(extras)), true)
    }
    at += dataBytes + (parts & flagsPart ? 4 : 0)
    if (parts & timeoutPart) {
      this.#writeTime(at, extras.timeoutMs ?? 0)
      this.#writeTime(at + 8, extras.expirationMs ?? 0)
    }
    return this
  }

  /**
   * Adds an element from text that has a character for each byte, 0 to 255, to a set whose elements have only a key and a value. The value
   * begins at `from` of `data`; empty: zeros. Throws BugError if the key does not fit the set.
   */
  addPacked(key: string, data = '', from = 0): void {
    const { keyBytes, dataBytes } = this.layout
    if (key.length !== keyBytes)
      throw new BugError(`a key of ${key.length} bytes in ${this.set.set}, where it has ${keyBytes}`)
    const at = this.#reserve()
    const bytes = this.#bytes
    for (let place = 0; place < key.length; place++) bytes[at + place] = key.charCodeAt(place)
    if (data === '') return
    const dataAt = at + keyBytes
    for (let place = 0; place < dataBytes; place++) bytes[dataAt + place] = data.charCodeAt(from + place)
  }

  /** A view, no copy, as are keyEnd() and data(). */
  key(index: number): Uint8Array {
    return this.#slice(index, 0, this.layout.keyBytes)
  }

  /** The last key of the interval. In a set without intervals of concatenations: the key. */
  keyEnd(index: number): Uint8Array {
    const { keyBytes, parts } = this.layout
    return this.#slice(index, parts & keyEndPart ? keyBytes : 0, keyBytes)
  }

  /** The value of an element of a map with values. The end of an interval has zeros. */
  data(index: number): Uint8Array {
    return this.#slice(index, this.#dataOffset(), this.layout.dataBytes)
  }

  /** The verdict of an element of a verdict map. Throws BugError for the end of an interval. */
  verdict(index: number): NfVerdict {
    const content = dataCodec.read(new StreamReader(this.#label(index)))
    if (!('verdict' in content)) throw new BugError(`element ${index} of ${this.set.set} has no verdict`)
    return content.verdict
  }

  /** The counter of an element of a map of counters. Throws BugError for the end of an interval. */
  counter(index: number): string {
    return new TextDecoder().decode(this.#label(index))
  }

  isIntervalEnd(index: number): boolean {
    const { parts, dataBytes } = this.layout
    if (!(parts & flagsPart)) return false
    const flags = this.#view.getUint32(this.#at(index) + this.#dataOffset() + dataBytes, true)
    return (flags & intervalEnd) !== 0
  }

  /** 0: the time-out of the set. */
  timeoutMs(index: number): number {
    return this.#readTime(index, 0)
  }

  /** The remaining time; 0: the element does not expire. */
  expirationMs(index: number): number {
    return this.#readTime(index, 8)
  }

  #addIntervalEnd(key: Uint8Array): this {
    const { keyBytes, dataBytes, parts } = this.layout
    if (!(parts & flagsPart))
      throw new BugError(`the end of an interval in ${this.set.set}, which has no intervals of one field`)
    const at = this.#reserve()
    this.#bytes.set(key, at)
    this.#view.setUint32(at + keyBytes + dataBytes, intervalEnd, true)
    return this
  }

  #dataOffset(): number {
    return this.layout.keyBytes * (this.layout.parts & keyEndPart ? 2 : 1)
  }

  #at(index: number): number {
    if (index < 0 || index >= this.length) throw new RangeError(`element ${index} of ${this.length}`)
    return index * this.stride
  }

  #slice(index: number, offset: number, length: number): Uint8Array {
    const start = this.#at(index) + offset
    return this.#bytes.subarray(start, start + length)
  }

  #readTime(index: number, offset: number): number {
    if (!(this.layout.parts & timeoutPart)) return 0
    const at = this.#at(index) + this.stride - 16 + offset
    return this.#view.getUint32(at, true) + this.#view.getUint32(at + 4, true) * 2 ** 32
  }

  #writeTime(at: number, milliseconds: number): void {
    this.#view.setUint32(at, milliseconds % 2 ** 32, true)
    this.#view.setUint32(at + 4, Math.floor(milliseconds / 2 ** 32), true)
  }

  #label(index: number): Uint8Array {
    if (this.isIntervalEnd(index))
      throw new BugError(`element ${index} of ${this.set.set} ends an interval and has no data`)
    const place = this.#view.getUint32(this.#at(index) + this.#dataOffset(), true)
    return this.#labels[place] ?? new Uint8Array(0)
  }

  #labelOf({ verdict, counter }: NfElementExtras): Uint8Array {
    if (this.layout.data === 3 && counter !== undefined) return new TextEncoder().encode(counter)
    if (this.layout.data !== 2 || verdict === undefined)
      throw new BugError(`an element of ${this.set.set} needs a ${String(this.set.data)}`)
    const stream = new StreamWriter(64)
    dataCodec.write(stream, { verdict })
    return stream.finish()
  }

  #placeOf(label: Uint8Array): number {
    const name = Buffer.from(label).toString('latin1')
    const known = this.#places.get(name)
    if (known !== undefined) return known
    const place = this.#labels.push(label) - 1
    this.#places.set(name, place)
    return place
  }

  #check(what: string, bytes: Uint8Array, length: number): void {
    if (bytes.length !== length)
      throw new BugError(`a ${what} of ${bytes.length} bytes in ${this.set.set}, where it has ${length}`)
  }

  /** Adds a zeroed element. Returns its byte offset. */
  #reserve(): number {
    const at = this.#used
    this.#used += this.stride
    if (this.#used > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#used, this.#bytes.length * 2, 16 * this.stride))
      grown.set(this.#bytes)
      this.#bytes = grown
      this.#view = new DataView(grown.buffer)
    }
    return at
  }
}
