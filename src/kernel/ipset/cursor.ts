// Reads listings of ipset: entries by index without an object per record; the few sets as objects.
import type { IpAddress, IpFamily } from '../../address.js'
import {
  describeIpsetEntry,
  type IpsetEntry,
  type IpsetHeader,
  type IpsetType,
  ipsetShapes,
  type IpsetShape,
} from './ipset.js'
import { entryLayout, extensionBit, setLayout } from './layout.js'
import { protocolNumber } from '../ipvs/encode.js'
import type { Protocol } from '../ipvs/ipvs.js'
import { familyFromByte, RecordTable } from '../records.js'

const protocols: ReadonlyMap<number, Protocol> = new Map([
  [protocolNumber.tcp, 'tcp'],
  [protocolNumber.udp, 'udp'],
  [protocolNumber.sctp, 'sctp'],
])

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** Entries of a listing, by index. Fields that the set type lacks are 0. */
export class IpsetEntryCursor extends RecordTable {
  readonly #shape: IpsetShape

  constructor(bytes: Uint8Array, type: IpsetType) {
    super(bytes, entryLayout)
    this.#shape = ipsetShapes[type]
  }

  family(index: number): IpFamily {
    return familyFromByte(this.u8(index, entryLayout.family))
  }

  address(index: number): IpAddress {
    return this.ip(index, entryLayout.address, this.family(index))
  }

  secondAddress(index: number): IpAddress {
    return this.ip(index, entryLayout.secondAddress, this.family(index))
  }

  port(index: number): number {
    return this.u16(index, entryLayout.port)
  }

  /** A protocol that Kubernetes does not have is a number. */
  protocol(index: number): Protocol | number {
    const number = this.u8(index, entryLayout.protocol)
    return protocols.get(number) ?? number
  }

  prefixLength(index: number): number {
    return this.u8(index, entryLayout.prefixLength)
  }

  /** Value and mask 0: no mark. */
  mark(index: number): number {
    return this.u32(index, entryLayout.mark)
  }

  markMask(index: number): number {
    return this.u32(index, entryLayout.markMask)
  }

  /** `nomatch` of the ipset tool: the set does not match this entry. Adding the entry again makes it an ordinary one. */
  isException(index: number): boolean {
    return this.u8(index, entryLayout.isException) !== 0
  }

  /** As an object, without a comment. */
  entry(index: number): IpsetEntry {
    const { hasAddress, hasPort, hasSecondAddress, hasNetwork } = this.#shape
    const entry: Writable<IpsetEntry> = {}
    if (hasAddress) entry.address = this.address(index)
    if (hasAddress && hasPort) entry.protocol = this.protocol(index)
    if (hasPort) entry.port = this.port(index)
    if (hasSecondAddress) entry.secondAddress = this.secondAddress(index)
    if (hasNetwork) entry.prefixLength = this.prefixLength(index)
    const [value, mask] = [this.mark(index), this.markMask(index)]
    if (value !== 0 || mask !== 0) entry.mark = { value, mask }
    return entry
  }

  /** The entry's identity in its set: describeIpsetEntry(). */
  key(index: number): string {
    return describeIpsetEntry(this.entry(index))
  }
}

class HeaderCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, setLayout)
  }

  header(index: number): IpsetHeader {
    const family = this.u8(index, setLayout.family)
    const extensions = this.u8(index, setLayout.extensions)
    return {
      name: this.#name(index, setLayout.name),
      type: this.#name(index, setLayout.type),
      family: family === 0 ? undefined : familyFromByte(family),
      maxElements: this.u32(index, setLayout.maxElements),
      hasMarks: (extensions & extensionBit.marks) !== 0,
      hasComments: (extensions & extensionBit.comments) !== 0,
      references: this.u32(index, setLayout.references),
      elements: this.u32(index, setLayout.elementCount),
    }
  }

  /** Text of a field of 32 bytes. */
  #name(index: number, offset: number): string {
    const at = index * setLayout.size + offset
    const field = this.bytes.subarray(at, at + 32)
    const end = field.indexOf(0)
    return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end))
  }
}

/** The sets of a listing. */
export function decodeIpsetHeaders(bytes: Uint8Array): readonly IpsetHeader[] {
  const cursor = new HeaderCursor(bytes)
  return Array.from({ length: cursor.length }, (_, index) => cursor.header(index))
}
