import { familyOf, type IpFamily } from '../address.js'
import { writeRealServerKey, writeRealServerSettings } from './ipvs-encode.js'
import { RealServerCursor } from './ipvs-cursors.js'
import type { RealServer, RealServerKey, RealServerSettings } from './ipvs.js'
import { realServerLayout as layout, recordBuffer } from './records.js'

const { size } = layout

/** Lists of up to so many, which is nearly all, are written without a buffer of their own, and sorted where they lie. */
const fewServers = 64
const fewRecords = recordBuffer(fewServers * size)
const moved = Buffer.alloc(size)

/** What the records of `fewRecords` hold beside addresses and ports, so that it need not be written for each list. */
let filling: { readonly settings: RealServerSettings; readonly family: IpFamily } | undefined

/**
 * The real servers of one virtual server, each once: packed records in the order of a dump (by address bytes, then port), which
 * are compared and sent as they are. Immutable. The records lie in text, one character a byte: V8 keeps it among its
 * objects, where a buffer of this size would cost its weight again.
 */
export class RealServerList implements Iterable<RealServer> {
  static readonly none = new RealServerList('')

  readonly #records: string

  private constructor(records: string) {
    this.#records = records
  }

  /** In any order, but no two of the same address and port. */
  static of(realServers: readonly RealServer[]): RealServerList {
    if (realServers.length === 0) return RealServerList.none
    const records = recordBuffer(realServers.length * size)
    let at = 0
    for (const { key, settings } of realServers) {
      writeRealServerSettings(records, at, settings)
      writeRealServerKey(records, at, key)
      at += size
    }
    return RealServerList.#sorted(records.bytes, at)
  }

  /** As `of`, all of one family and with the same settings. */
  static withSettings(keys: readonly RealServerKey[], settings: RealServerSettings): RealServerList {
    const [first] = keys
    if (first === undefined) return RealServerList.none
    if (keys.length > fewServers) return RealServerList.of(keys.map((key) => ({ key, settings })))
    fill(settings, familyOf(first.address))
    let at = 0
    for (const key of keys) {
      writeRealServerKey(fewRecords, at, key)
      at += size
    }
    return RealServerList.#sorted(fewRecords.bytes, at)
  }

  /** `count` real servers of a dump's table, from its record `first` on. */
  static fromDump(table: Buffer, first: number, count: number): RealServerList {
    return new RealServerList(table.toString('latin1', first * size, (first + count) * size))
  }

  static #sorted(bytes: Buffer, end: number): RealServerList {
    return new RealServerList(sortRecords(bytes, end).toString('latin1', 0, end))
  }

  get length(): number {
    return this.#records.length / size
  }

  /** As an object. Throws RangeError: there is none of that index. */
  at(index: number): RealServer {
    const cursor = new RealServerCursor(Buffer.from(this.#recordAt(index), 'latin1'))
    return { key: cursor.key(0), settings: cursor.settings(0) }
  }

  /** As objects, which are made for it. */
  *[Symbol.iterator](): IterableIterator<RealServer> {
    const cursor = new RealServerCursor(Buffer.from(this.#records, 'latin1'))
    for (let index = 0; index < cursor.length; index++)
      yield { key: cursor.key(index), settings: cursor.settings(index) }
  }

  /** Whether the real server of that index gets no new connections: its weight is 0. */
  isHeldBack(index: number): boolean {
    const start = index * size + layout.weight
    for (let at = start; at < start + 4; at++) if (this.#records.charCodeAt(at) !== 0) return false
    return true
  }

  /** Whether any of them gets no new connections. */
  get hasHeldBack(): boolean {
    for (let index = this.length - 1; index >= 0; index--) if (this.isHeldBack(index)) return true
    return false
  }

  /** Whether these are the same real servers with the same settings. */
  equals(other: RealServerList): boolean {
    return this.#records === other.#records
  }

  /** Whether a dump's table holds these from its record `first` on. */
  isAt(table: Buffer, first: number): boolean {
    const start = first * size
    return table.toString('latin1', start, start + this.#records.length) === this.#records
  }

  /** Below 0: the real server `index` comes before the other list's `otherIndex`; 0: it is the same address and port. */
  compareKeys(index: number, other: RealServerList, otherIndex: number): number {
    const [records, otherRecords] = [this.#records, other.#records]
    const at = index * size
    const otherAt = otherIndex * size
    for (let i = layout.address; i < layout.address + 16; i++) {
      const order = records.charCodeAt(at + i) - otherRecords.charCodeAt(otherAt + i)
      if (order !== 0) return order
    }
    return portAt(records, at) - portAt(otherRecords, otherAt)
  }

  /** Whether the real server `index` is the other list's `otherIndex`, settings included. */
  isSame(index: number, other: RealServerList, otherIndex: number): boolean {
    return this.#recordAt(index) === other.#recordAt(otherIndex)
  }

  /** Writes all records into a table at byte `at`. */
  copyTo(table: Buffer, at: number): void {
    table.write(this.#records, at, 'latin1')
  }

  #recordAt(index: number): string {
    if (index < 0 || index >= this.length) throw new RangeError(`no real server ${index} of ${this.length}`)
    return this.#records.slice(index * size, (index + 1) * size)
  }
}

/** Makes `fewRecords` ready for keys of the family: an address of IPv4 leaves most of its field as it is. */
function fill(settings: RealServerSettings, family: IpFamily): void {
  if (filling?.settings === settings && filling.family === family) return
  const template = recordBuffer(size)
  writeRealServerSettings(template, 0, settings)
  fewRecords.bytes.fill(template.bytes)
  filling = { settings, family }
}

function portAt(records: string, at: number): number {
  return records.charCodeAt(at + layout.port) + records.charCodeAt(at + layout.port + 1) * 256
}

/** The first `end` bytes in order, where they lie or in a copy. */
function sortRecords(bytes: Buffer, end: number): Buffer {
  if (end <= fewServers * size) {
    for (let at = size; at < end; at += size) insertRecord(bytes, at)
    return bytes
  }
  const offsets = Array.from({ length: end / size }, (_, i) => i * size)
  const sorted = offsets.toSorted((a, b) => compareRecords(bytes, a, b))
  return Buffer.concat(sorted.map((offset) => bytes.subarray(offset, offset + size)))
}

/** Moves the record at `at` to its place among those before it, which are sorted. */
function insertRecord(bytes: Buffer, at: number): void {
  let place = at
  while (place > 0 && compareRecords(bytes, place - size, at) > 0) place -= size
  if (place === at) return
  bytes.copy(moved, 0, at, at + size)
  bytes.copyWithin(place + size, place, at)
  moved.copy(bytes, place)
}

/** Of the records at these offsets. */
function compareRecords(bytes: Buffer, a: number, b: number): number {
  const { address, port } = layout
  for (let i = address; i < address + 16; i++) {
    const order = (bytes[a + i] ?? 0) - (bytes[b + i] ?? 0)
    if (order !== 0) return order
  }
  return bytes.readUInt16LE(a + port) - bytes.readUInt16LE(b + port)
}
