// Packs ipset operations into records.
import { writeAddress, type IpAddress } from '../../address.js'
import { BugError } from '../../errors.js'
import { describeIpsetOp, type IpsetEntry, type IpsetOp, type IpsetSettings, ipsetShapes } from './ipset.js'
import { protocolNumber } from '../ipvs/encode.js'
import { entryLayout, extensionBit, opLayout, opNumber, setLayout } from './layout.js'
import { addressFamily, recordBuffer, type RecordBuffer } from '../records.js'

/** A packed batch: operations refer to tables of sets and entries by index; `texts` holds the entries' comments. */
interface EncodedIpsetBatch {
  readonly ops: Uint8Array
  readonly sets: Uint8Array
  readonly entries: Uint8Array
  readonly texts: Uint8Array
}

const maxNameLength = 31
const maxCommentBytes = 255

/** Writes ASCII text into a zeroed field of 32 bytes. */
function writeName(bytes: Uint8Array, at: number, name: string): void {
  if (name === '' || name.length > maxNameLength)
    throw new BugError(`"${name}" is not a set name: use 1 to ${maxNameLength} characters`)
  for (let i = 0; i < name.length; i++) bytes[at + i] = name.charCodeAt(i)
}

function writeSettings({ bytes, view }: RecordBuffer, at: number, set: IpsetSettings): void {
  writeName(bytes, at + setLayout.type, set.type)
  view.setUint32(at + setLayout.maxElements, set.maxElements, true)
  view.setUint32(at + setLayout.hashSize, set.hashSize, true)
  bytes[at + setLayout.family] = addressFamily[set.family]
  bytes[at + setLayout.extensions] = extensionsOf(set)
}

/** Writes settings, or only a name, into a SetRecord. Consecutive operations with the same settings share it. */
class SetWriter {
  #buffer = recordBuffer(8 * setLayout.size)
  #length = 0
  #last: IpsetSettings | undefined

  get bytes(): Uint8Array {
    return this.#buffer.bytes.subarray(0, this.#length * setLayout.size)
  }

  addName(name: string): number {
    const at = this.#length * setLayout.size
    if (at === this.#buffer.bytes.length) {
      const grown = recordBuffer(2 * at)
      grown.bytes.set(this.#buffer.bytes)
      this.#buffer = grown
    }
    this.#last = undefined
    writeName(this.#buffer.bytes, at + setLayout.name, name)
    return this.#length++
  }

  addSettings(set: IpsetSettings): number {
    if (set === this.#last) return this.#length - 1
    const index = this.addName(set.name)
    writeSettings(this.#buffer, index * setLayout.size, set)
    this.#last = set
    return index
  }
}

/**
 * Writes an entry without its comment into a zeroed EntryRecord, as in a listing. False: the entry does not fit the set's type or
 * family.
 */
export function writeIpsetEntry(
  buffer: RecordBuffer,
  at: number,
  { type, family }: Pick<IpsetSettings, 'type' | 'family'>,
  entry: IpsetEntry,
): boolean {
  const { bytes, view } = buffer
  const shape = ipsetShapes[type]
  const { address, secondAddress, port, protocol, mark } = entry
  const number = addressFamily[family]
  if (shape.hasAddress) {
    if (!writeAddressOf(number, address, bytes, at + entryLayout.address)) return false
    bytes[at + entryLayout.family] = number
  }
  if (shape.hasSecondAddress && !writeAddressOf(number, secondAddress, bytes, at + entryLayout.secondAddress))
    return false
  if (shape.hasPort) {
    if (port === undefined) return false
    view.setUint16(at + entryLayout.port, port, true)
  }
  if (shape.hasPort && shape.hasAddress) {
    if (protocol === undefined) return false
    bytes[at + entryLayout.protocol] = typeof protocol === 'number' ? protocol : protocolNumber[protocol]
  }
  if (shape.hasNetwork) {
    if (entry.prefixLength === undefined) return false
    bytes[at + entryLayout.prefixLength] = entry.prefixLength
  }
  if (mark !== undefined) {
    view.setUint32(at + entryLayout.mark, mark.value, true)
    view.setUint32(at + entryLayout.markMask, mark.mask, true)
  }
  return true
}

function writeAddressOf(
  family: number,
  address: IpAddress | undefined,
  bytes: Uint8Array,
  at: number,
): boolean {
  return address !== undefined && addressFamily[writeAddress(address, bytes, at)] === family
}

/** Writes entries into EntryRecords, and their comments into one byte string. */
class EntryWriter {
  readonly #buffer: RecordBuffer
  readonly #encoder = new TextEncoder()
  #length = 0
  #texts = new Uint8Array()
  #textsLength = 0

  constructor(capacity: number) {
    this.#buffer = recordBuffer(capacity * entryLayout.size)
  }

  get bytes(): Uint8Array {
    return this.#buffer.bytes
  }

  get texts(): Uint8Array {
    return this.#texts.subarray(0, this.#textsLength)
  }

  /** False: the entry does not fit the set's type or family. */
  add(set: IpsetSettings, entry: IpsetEntry): boolean {
    const at = this.#length * entryLayout.size
    if (!writeIpsetEntry(this.#buffer, at, set, entry)) return false
    if (entry.comment !== undefined) this.#writeComment(entry.comment, at)
    this.#length++
    return true
  }

  #writeComment(comment: string, at: number): void {
    const text = this.#encoder.encode(comment)
    if (text.length > maxCommentBytes)
      throw new BugError(`a comment has at most ${maxCommentBytes} bytes, this one has ${text.length}`)
    if (this.#textsLength + text.length > this.#texts.length) {
      const grown = new Uint8Array(2 * this.#texts.length + maxCommentBytes)
      grown.set(this.#texts)
      this.#texts = grown
    }
    this.#texts.set(text, this.#textsLength)
    this.#buffer.view.setUint32(at + entryLayout.commentOffset, this.#textsLength, true)
    this.#buffer.bytes[at + entryLayout.commentLength] = text.length
    this.#textsLength += text.length
  }
}

function extensionsOf({ hasMarks, hasComments }: Pick<IpsetSettings, 'hasMarks' | 'hasComments'>): number {
  return (hasMarks ? extensionBit.marks : 0) | (hasComments ? extensionBit.comments : 0)
}

function countEntries(ops: readonly IpsetOp[]): number {
  let count = 0
  for (const op of ops) if (op.op === 'add-entry' || op.op === 'delete-entry') count++
  return count
}

/** Throws BugError for an entry that does not fit its set's type or family. */
export function encodeIpsetOps(ops: readonly IpsetOp[]): EncodedIpsetBatch {
  const records = recordBuffer(ops.length * opLayout.size)
  const sets = new SetWriter()
  const entries = new EntryWriter(countEntries(ops))
  let entryIndex = 0
  for (const [index, op] of ops.entries()) {
    let object = 0
    let set: number
    switch (op.op) {
      case 'create-set':
        set = sets.addSettings(op.set)
        break
      case 'destroy-set':
      case 'flush-set':
        set = sets.addName(op.name)
        break
      case 'swap-sets':
        set = sets.addName(op.name)
        object = sets.addName(op.other)
        break
      case 'rename-set':
        set = sets.addName(op.name)
        object = sets.addName(op.to)
        break
      case 'add-entry':
      case 'delete-entry':
        set = sets.addSettings(op.set)
        if (!entries.add(op.set, op.entry))
          throw new BugError(
            `${op.op} ${describeIpsetOp(op)}: no entry of an ${op.set.family} ${op.set.type}`,
          )
        object = entryIndex++
        break
    }
    const at = index * opLayout.size
    records.view.setUint32(at + opLayout.set, set, true)
    records.view.setUint32(at + opLayout.object, object, true)
    records.bytes[at + opLayout.op] = opNumber[op.op]
  }
  return { ops: records.bytes, sets: sets.bytes, entries: entries.bytes, texts: entries.texts }
}
