import { familyOf, type IpFamily } from '../../address.js'
import { writeRealServerKey, writeRealServerSettings } from './encode.js'
import { RealServerCursor } from './cursors.js'
import type { RealServer, RealServerKey, RealServerSettings } from './servers.js'
import { realServerLayout as layout } from './layout.js'
import { recordBuffer } from '../records.js'

const { size } = layout

/** Lists up to this length, which are nearly all, are sorted in one shared buffer. */
const fewServers = 64

/** Records with the same settings, so that short lists do not write the settings again. */
class FewRecords {
  readonly buffer = recordBuffer(fewServers * size)
  #settings: RealServerSettings | undefined
  #family: IpFamily | undefined

  /** NB: do not mix families: an IPv4 address fills four of the sixteen bytes and would leave the others unchanged. */
  prepare(settings: RealServerSettings, family: IpFamily): void {
    if (settings === this.#settings && family === this.#family) return
    const template = recordBuffer(size)
    writeRealServerSettings(template, 0, settings)
    this.buffer.bytes.fill(template.bytes)
    this.#settings = settings
    this.#family = family
  }
}

const few = new FewRecords()
const lifted = Buffer.alloc(size)

/**
 * The real servers of one virtual server, without duplicates: packed records in the order of a dump (address bytes, then port). They
 * are compared and sent unchanged (docs/adr/0013). Immutable. A string holds the records, one character per byte: a buffer of this
 * size would double the memory. NB: deepEqual does not compare the records; use `equals`.
 */
export class RealServerList implements Iterable<RealServer> {
  readonly #records: string

  private constructor(records: string) {
    this.#records = records
  }

  /** In any order. NB: no two with the same address and port. */
  static of(realServers: readonly RealServer[]): RealServerList {
    const records = recordBuffer(realServers.length * size)
    let at = 0
    for (const { key, settings } of realServers) {
      writeRealServerSettings(records, at, settings)
      writeRealServerKey(records, at, key)
      at += size
    }
    return new RealServerList(sortedText(records.bytes, at))
  }

  /** Like `of`, for keys of one family and with the same settings. */
  static withSettings(keys: readonly RealServerKey[], settings: RealServerSettings): RealServerList {
    const [first] = keys
    if (first === undefined) return noRealServers
    if (keys.length > fewServers) return RealServerList.of(keys.map((key) => ({ key, settings })))
    few.prepare(settings, familyOf(first.address))
    let at = 0
    for (const key of keys) {
      writeRealServerKey(few.buffer, at, key)
      at += size
    }
    return new RealServerList(sortedText(few.buffer.bytes, at))
  }

  /** `count` real servers of a dump's table from record `first`. */
  static fromDump(table: Buffer, first: number, count: number): RealServerList {
    return new RealServerList(table.toString('latin1', first * size, (first + count) * size))
  }

  get length(): number {
    return this.#records.length / size
  }

  /** One real server as an object. Throws RangeError for an absent index. */
  at(index: number): RealServer {
    const cursor = new RealServerCursor(Buffer.from(this.#recordAt(index), 'latin1'))
    return { key: cursor.key(0), settings: cursor.settings(0) }
  }

  /** Yields new objects. */
  *[Symbol.iterator](): IterableIterator<RealServer> {
    const cursor = new RealServerCursor(Buffer.from(this.#records, 'latin1'))
    for (let index = 0; index < cursor.length; index++)
      yield { key: cursor.key(index), settings: cursor.settings(index) }
  }

  /** A list with this real server added, or replacing the one with its address and port. */
  with(real: RealServer): RealServerList {
    const added = RealServerList.of([real])
    const index = this.#placeOf(added)
    return this.#spliced(index, this.#isAt(index, added) ? 1 : 0, added.#records)
  }

  /** A list without the real server of this address and port; this list if there is none. */
  without(key: RealServerKey): RealServerList {
    const removed = new RealServerList(textOf(key))
    const index = this.#placeOf(removed)
    return this.#isAt(index, removed) ? this.#spliced(index, 1, '') : this
  }

  /** Index of the first real server that does not come before `one`'s single one. */
  #placeOf(one: RealServerList): number {
    let [from, to] = [0, this.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      if (this.compareKeys(middle, one, 0) < 0) from = middle + 1
      else to = middle
    }
    return from
  }

  #isAt(index: number, one: RealServerList): boolean {
    return index < this.length && this.compareKeys(index, one, 0) === 0
  }

  #spliced(index: number, count: number, added: string): RealServerList {
    const at = index * size
    return new RealServerList(this.#records.slice(0, at) + added + this.#records.slice(at + count * size))
  }

  /** Whether the real server gets no new connections: its weight is 0. */
  isHeldBack(index: number): boolean {
    const start = index * size + layout.weight
    for (let at = start; at < start + 4; at++) if (this.#records.charCodeAt(at) !== 0) return false
    return true
  }

  /** The real servers that get no new connections, as new objects. */
  get heldBack(): readonly RealServer[] {
    const found: RealServer[] = []
    for (let index = 0; index < this.length; index++) if (this.isHeldBack(index)) found.push(this.at(index))
    return found
  }

  /** Whether both lists have the same real servers with the same settings. */
  equals(other: RealServerList): boolean {
    return this.#records === other.#records
  }

  /** Whether a dump's table holds this list from record `first`. */
  isAt(table: Buffer, first: number): boolean {
    const start = first * size
    return table.toString('latin1', start, start + this.#records.length) === this.#records
  }

  /** Below 0: the real server `index` comes before the other list's `otherIndex`. 0: both have the same address and port. */
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

  /** Whether the real server `index` equals the other list's `otherIndex`, settings included. */
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

/** The empty list. */
export const noRealServers = RealServerList.of([])

/** One record for comparisons of the key. Its settings do not matter. */
function textOf(key: RealServerKey): string {
  const record = recordBuffer(size)
  writeRealServerKey(record, 0, key)
  return record.bytes.toString('latin1')
}

function sortedText(bytes: Buffer, end: number): string {
  return sortRecords(bytes, end).toString('latin1', 0, end)
}

function portAt(records: string, at: number): number {
  return records.charCodeAt(at + layout.port) + records.charCodeAt(at + layout.port + 1) * 256
}

/** Sorts the records of the first `end` bytes, in place or in a copy. */
function sortRecords(bytes: Buffer, end: number): Buffer {
  if (end <= fewServers * size) {
    for (let at = size; at < end; at += size) insertRecord(bytes, at)
    return bytes
  }
  const offsets = Array.from({ length: end / size }, (_, i) => i * size)
  const sorted = offsets.toSorted((a, b) => compareRecords(bytes, a, b))
  return Buffer.concat(sorted.map((offset) => bytes.subarray(offset, offset + size)))
}

/** Moves the record at `at` to its place among the sorted records before it. */
function insertRecord(bytes: Buffer, at: number): void {
  let place = at
  while (place > 0 && compareRecords(bytes, place - size, at) > 0) place -= size
  if (place === at) return
  bytes.copy(lifted, 0, at, at + size)
  bytes.copyWithin(place + size, place, at)
  lifted.copy(bytes, place)
}

/** Compares the keys of the records at these offsets. */
function compareRecords(bytes: Buffer, a: number, b: number): number {
  const { address, port } = layout
  for (let i = address; i < address + 16; i++) {
    const order = (bytes[a + i] ?? 0) - (bytes[b + i] ?? 0)
    if (order !== 0) return order
  }
  return bytes.readUInt16LE(a + port) - bytes.readUInt16LE(b + port)
}
