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
const noWeight = '\0\0\0\0'

/** The real servers that lead from one list to another. */
export interface RealServerChanges {
  readonly added: RealServerList
  /** Real servers with other settings, as the second list has them. */
  readonly changed: RealServerList
  readonly removed: RealServerList
}

/**
 * The real servers of one virtual server, without duplicates: packed records in the order of a dump (address bytes, then port). They
 * are compared and sent unchanged (docs/adr/0013). Immutable. A string holds the records, one character per byte: a buffer of this
 * size would double the memory. NB: deepEqual does not compare the records; use `equals`.
 */
export class RealServerList implements Iterable<RealServer> {
  private static empty: RealServerList | undefined
  readonly #records: string

  private constructor(records: string) {
    this.#records = records
  }

  /** The empty list is always the same object, `noRealServers`. */
  private static from(records: string): RealServerList {
    if (records !== '') return new RealServerList(records)
    return (RealServerList.empty ??= new RealServerList(''))
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
    return RealServerList.from(sortedText(records.bytes, at))
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
    return RealServerList.from(sortedText(few.buffer.bytes, at))
  }

  /** `count` real servers of a dump's table from record `first`. */
  static fromDump(table: Buffer, first: number, count: number): RealServerList {
    return RealServerList.from(table.toString('latin1', first * size, (first + count) * size))
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
    const index = this.#placeOf(added, 0)
    return this.#spliced(index, this.#isAt(index, added, 0) ? 1 : 0, added.#records)
  }

  /** A list without the real server of this address and port; this list if there is none. */
  without(key: RealServerKey): RealServerList {
    const index = this.indexOf(new RealServerList(textOf(key)), 0)
    return index < 0 ? this : this.#spliced(index, 1, '')
  }

  /** Index of the first real server that does not come before the other list's `otherIndex`. */
  #placeOf(other: RealServerList, otherIndex: number): number {
    let [from, to] = [0, this.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      if (this.#compareKeys(middle, other, otherIndex) < 0) from = middle + 1
      else to = middle
    }
    return from
  }

  #isAt(index: number, other: RealServerList, otherIndex: number): boolean {
    return index < this.length && this.#compareKeys(index, other, otherIndex) === 0
  }

  #spliced(index: number, count: number, added: string): RealServerList {
    const at = index * size
    return RealServerList.from(this.#records.slice(0, at) + added + this.#records.slice(at + count * size))
  }

  /** The real servers whose address and port the other list does not have. */
  minus(other: RealServerList): RealServerList {
    if (other === noRealServers) return this
    if (this.equals(other)) return noRealServers
    return this.#pick(other, (_left, right) => right === undefined)
  }

  /** The real servers whose address and port the other list has too. */
  within(other: RealServerList): RealServerList {
    return this.#pick(other, (_left, right) => right !== undefined)
  }

  /** The real servers of both lists; where both have one of the same address and port, this list's. */
  plus(other: RealServerList): RealServerList {
    if (other === noRealServers) return this
    let records = ''
    this.#walk(other, (left = '', right = '') => (records += left === '' ? right : left))
    return RealServerList.from(records)
  }

  /** The same real servers with weight 0: they get no new connections. */
  withoutWeight(): RealServerList {
    if (this === noRealServers) return this
    let records = ''
    for (let at = 0; at < this.#records.length; at += size) {
      const start = at + layout.weight
      records += this.#records.slice(at, start) + noWeight + this.#records.slice(start + 4, at + size)
    }
    return RealServerList.from(records)
  }

  /** The real servers to add, to change and to remove so that this list becomes the other one. */
  changesTo(other: RealServerList): RealServerChanges {
    const records = { added: '', changed: '', removed: '' }
    if (!this.equals(other))
      this.#walk(other, (left, right) => {
        if (right === undefined) records.removed += left ?? ''
        else if (left === undefined) records.added += right
        else if (left !== right) records.changed += right
      })
    return {
      added: RealServerList.from(records.added),
      changed: RealServerList.from(records.changed),
      removed: RealServerList.from(records.removed),
    }
  }

  #pick(
    other: RealServerList,
    isPicked: (left: string, right: string | undefined) => boolean,
  ): RealServerList {
    let records = ''
    this.#walk(other, (left, right) => {
      if (left !== undefined && isPicked(left, right)) records += left
    })
    return records === this.#records ? this : RealServerList.from(records)
  }

  /** Walks both lists together, by their common order. `visit` gets the records of one address and port; undefined: one list has none. */
  #walk(other: RealServerList, visit: (left: string | undefined, right: string | undefined) => void): void {
    const [leftCount, rightCount] = [this.length, other.length]
    for (let left = 0, right = 0; left < leftCount || right < rightCount;) {
      const order = left === leftCount ? 1 : right === rightCount ? -1 : this.#compareKeys(left, other, right)
      visit(order <= 0 ? this.#recordAt(left) : undefined, order >= 0 ? other.#recordAt(right) : undefined)
      if (order <= 0) left++
      if (order >= 0) right++
    }
  }

  /** Whether the real server gets no new connections: its weight is 0. */
  isHeldBack(index: number): boolean {
    const start = index * size + layout.weight
    for (let at = start; at < start + 4; at++) if (this.#records.charCodeAt(at) !== 0) return false
    return true
  }

  /** Whether any real server gets new connections. */
  get isServing(): boolean {
    for (let index = 0; index < this.length; index++) if (!this.isHeldBack(index)) return true
    return false
  }

  /** The real servers that get no new connections. */
  get heldBack(): RealServerList {
    return this.#pick(noRealServers, (record) => record.startsWith(noWeight, layout.weight))
  }

  /** Index of the real server with the address and port of the other list's `otherIndex`; -1: there is none. */
  indexOf(other: RealServerList, otherIndex: number): number {
    const index = this.#placeOf(other, otherIndex)
    return this.#isAt(index, other, otherIndex) ? index : -1
  }

  /** Identity of a real server in a Map: its address and port. It is never shown. */
  idAt(index: number): string {
    const record = this.#recordAt(index)
    return record.slice(0, layout.weight) + record.slice(layout.port, layout.port + 2)
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
  #compareKeys(index: number, other: RealServerList, otherIndex: number): number {
    const [records, otherRecords] = [this.#records, other.#records]
    const at = index * size
    const otherAt = otherIndex * size
    for (let i = layout.address; i < layout.address + 16; i++) {
      const order = records.charCodeAt(at + i) - otherRecords.charCodeAt(otherAt + i)
      if (order !== 0) return order
    }
    return portAt(records, at) - portAt(otherRecords, otherAt)
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

/** The empty list; always this object. */
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
