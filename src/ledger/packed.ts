// Virtual servers as the bytes of a dump: a reconcile compares bytes, and makes objects only for what differs
// (an object per kernel object costs 500-900 ns, a comparison of a whole virtual server some 100 ns).
import { type IpAddress, type IpFamily, writeAddress } from '../address.js'
import {
  IpvsBatch,
  type IpvsDump,
  RealServerCursor,
  VirtualServerCursor,
  type VirtualServerKey,
  realServerLayout,
  virtualServerLayout,
} from '../kernel/index.js'
import { type ServerState, diff } from './diff.js'

/** Identity of an address in a Map, from text and from packed bytes alike: a number for IPv4, 16 characters for IPv6. */
export type PackedAddress = (number | string) & { readonly brand: 'PackedAddress' }
/** Identity of a virtual server in a Map; it is never shown. */
export type PackedId = (number | string) & { readonly brand: 'PackedId' }

/** The records that a dump holds for one virtual server. */
export interface PackedState {
  readonly server: Buffer
  readonly realServers: Buffer
}

/** Linux protocol numbers have 8 bits, ports 16: an IPv4 identity has 56 bits unless the protocol is shortened. */
const shortProtocol = { tcp: 0, udp: 1, sctp: 2 } as const

const scratch = Buffer.alloc(16)

export function packedAddressOf(address: IpAddress): PackedAddress {
  writeAddress(address, scratch, 0)
  return packedAddressAt(scratch, 0, address.includes(':') ? 'ipv6' : 'ipv4')
}

export function packedAddressAt(bytes: Buffer, offset: number, family: IpFamily): PackedAddress {
  const id = family === 'ipv4' ? bytes.readUInt32BE(offset) : bytes.toString('latin1', offset, offset + 16)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return id as PackedAddress
}

export function packedIdOf(key: VirtualServerKey): PackedId {
  if ('mark' in key) return markId(key.mark)
  return joinId(packedAddressOf(key.address), key.port, shortProtocol[key.protocol])
}

/** No address of IPv6 is so short, and no identity of IPv4 a text. */
function markId(mark: number): PackedId {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return `mark ${mark}` as PackedId
}

/** 32 + 16 + 2 bits fit a double exactly. */
function joinId(address: PackedAddress, port: number, protocol: number): PackedId {
  const rest = port * 4 + protocol
  const id = typeof address === 'number' ? address * 2 ** 18 + rest : `${address}${rest}`
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return id as PackedId
}

/** The records of a virtual server in that state, real servers in a dump's order. */
export function packState(key: VirtualServerKey, state: ServerState): PackedState {
  const batch = IpvsBatch.of(diff(key, undefined, state)).encoded
  const server = Buffer.from(batch.virtualServers)
  server.writeUInt32LE(state.realServers.length, virtualServerLayout.realCount)
  return { server, realServers: sortRealServers(bufferOver(batch.realServers)) }
}

/** By address bytes, then by port as a number: how dumps come. A copy, so that the batch's larger buffer can go. */
function sortRealServers(records: Buffer): Buffer {
  const { size } = realServerLayout
  if (isSorted(records)) return Buffer.from(records)
  const offsets = Array.from({ length: records.length / size }, (_, i) => i * size)
  const sorted = offsets.toSorted((a, b) => compareRealServers(records, a, b))
  return Buffer.concat(sorted.map((offset) => records.subarray(offset, offset + size)))
}

function isSorted(records: Buffer): boolean {
  const { size } = realServerLayout
  for (let at = size; at < records.length; at += size) {
    if (compareRealServers(records, at - size, at) > 0) return false
  }
  return true
}

/** Of the records at these offsets. */
function compareRealServers(records: Buffer, a: number, b: number): number {
  const { address, port } = realServerLayout
  for (let i = address; i < address + 16; i++) {
    const order = (records[a + i] ?? 0) - (records[b + i] ?? 0)
    if (order !== 0) return order
  }
  return records.readUInt16LE(a + port) - records.readUInt16LE(b + port)
}

export function bufferOver(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** One family's dump, read by index. */
export class PackedDump {
  readonly length: number
  readonly #servers: VirtualServerCursor
  readonly #reals: RealServerCursor
  readonly #serverBytes: Buffer
  readonly #realBytes: Buffer

  constructor(dump: IpvsDump) {
    this.#servers = new VirtualServerCursor(dump.virtualServers)
    this.#reals = new RealServerCursor(dump.realServers)
    this.#serverBytes = bufferOver(dump.virtualServers)
    this.#realBytes = bufferOver(dump.realServers)
    this.length = this.#servers.length
  }

  id(index: number): PackedId {
    const mark = this.#servers.mark(index)
    if (mark !== 0) return markId(mark)
    const offset = index * virtualServerLayout.size + virtualServerLayout.address
    const address = packedAddressAt(this.#serverBytes, offset, this.#servers.family(index))
    return joinId(address, this.#servers.port(index), shortProtocol[this.#servers.protocol(index)])
  }

  key(index: number): VirtualServerKey {
    const family = this.#servers.family(index)
    const mark = this.#servers.mark(index)
    if (mark !== 0) return { family, mark }
    return {
      family,
      protocol: this.#servers.protocol(index),
      address: this.#servers.address(index),
      port: this.#servers.port(index),
    }
  }

  state(index: number): ServerState {
    const first = this.#servers.firstReal(index)
    const realServers = Array.from({ length: this.#servers.realCount(index) }, (_, i) => ({
      key: this.#reals.key(first + i),
      settings: this.#reals.settings(first + i),
    }))
    return { settings: this.#servers.settings(index), realServers }
  }

  /** Whether the kernel holds exactly this. */
  equals(index: number, { server, realServers }: PackedState): boolean {
    const first = this.#servers.firstReal(index)
    // Where its real servers lie is the dump's business, not the state's.
    server.writeUInt32LE(first, virtualServerLayout.firstReal)
    const { size } = virtualServerLayout
    if (this.#serverBytes.compare(server, 0, size, index * size, (index + 1) * size) !== 0) return false
    const start = first * realServerLayout.size
    return (
      this.#realBytes.compare(realServers, 0, realServers.length, start, start + realServers.length) === 0
    )
  }
}
