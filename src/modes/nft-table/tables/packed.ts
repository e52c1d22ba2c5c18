// Keys and data of elements as strings of characters 0 to 255, a byte each: half the memory of small Uint8Arrays, compared with
// `===`, and keys of maps as they are.
import { type IpAddress, type IpFamily, writeAddress } from '../../../address.js'
import type { Backend, Frontend, FrontendProtocol } from '../../../routing/index.js'

/** Bytes as characters. */
export type PackedBytes = string

/** Identity of a frontend: its KEY in the sets (schema.ts). The KEY of a node port is shorter than every other one. */
export type FrontendId = PackedBytes

const protocolNumbers: Readonly<Record<FrontendProtocol, number>> = { tcp: 6, udp: 17, sctp: 132 }

/** Each field of a key takes whole words. */
const wordBytes = 4
const portBytes = 2 * wordBytes
/** inet_service: two bytes in network order. */
const countBytes = 2

/** Length of the KEY of a node port: protocol, port. */
export const nodePortIdLength = portBytes

/** Whether the frontend's protocol is UDP. */
export function isUdp(id: FrontendId): boolean {
  return id.charCodeAt(id.length - portBytes) === protocolNumbers.udp
}

/** Number of endpoints as data of a map of counts. */
export function packCount(count: number): PackedBytes {
  return String.fromCharCode(count >>> 8, count & 255)
}

/** Inverse of packCount(). */
export function unpackCount(bytes: Uint8Array): number {
  return ((bytes[0] ?? 0) << 8) | (bytes[countBytes - 1] ?? 0)
}

/** Writes the characters as bytes at `at`. */
export function writePacked(bytes: Uint8Array, at: number, packed: PackedBytes): void {
  for (let index = 0; index < packed.length; index++) bytes[at + index] = packed.charCodeAt(index)
}

export function packBytes(bytes: Uint8Array): PackedBytes {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

/** Packs the keys and data of one family. Keeps one buffer. */
export class Packer {
  readonly addressBytes: number
  /** Bytes of an endpoint: address, port. */
  readonly endpointBytes: number
  #buffer = Buffer.alloc(64)
  #lastList: readonly Backend[] | undefined
  #lastPacked: PackedBytes = ''

  constructor(family: IpFamily) {
    this.addressBytes = family === 'ipv4' ? 4 : 16
    this.endpointBytes = this.addressBytes + wordBytes
  }

  address(address: IpAddress): PackedBytes {
    this.#begin(this.addressBytes)
    this.#address(0, address)
    return this.#take(this.addressBytes)
  }

  /** KEY of an address frontend or a node port. */
  frontend(frontend: Exclude<Frontend, { kind: 'health-check' }>): FrontendId {
    const start = frontend.kind === 'address' ? this.addressBytes : 0
    this.#begin(start + portBytes)
    if (frontend.kind === 'address') this.#address(0, frontend.address)
    this.#port(start, frontend)
    return this.#take(start + portBytes)
  }

  /** Key of a hairpin connection: endpoint, endpoint, protocol, port. */
  hairpin(hairpin: {
    readonly address: IpAddress
    readonly protocol: FrontendProtocol
    readonly port: number
  }): PackedBytes {
    const { addressBytes } = this
    this.#begin(2 * addressBytes + portBytes)
    this.#address(0, hairpin.address)
    this.#address(addressBytes, hairpin.address)
    this.#port(2 * addressBytes, hairpin)
    return this.#take(2 * addressBytes + portBytes)
  }

  /** Data of the endpoints, one after the other. The frontends of a service port mostly share a list, which is packed once. */
  endpoints(list: readonly Backend[]): PackedBytes {
    if (list.length === 0) return ''
    if (list === this.#lastList) return this.#lastPacked
    const { addressBytes, endpointBytes } = this
    const length = list.length * endpointBytes
    this.#begin(length)
    let at = 0
    for (const { address, port } of list) {
      this.#address(at, address)
      this.#buffer[at + addressBytes] = port >>> 8
      this.#buffer[at + addressBytes + 1] = port
      at += endpointBytes
    }
    this.#lastPacked = this.#take(length)
    this.#lastList = list
    return this.#lastPacked
  }

  #begin(length: number): void {
    if (this.#buffer.length < length) this.#buffer = Buffer.alloc(2 * length)
    this.#buffer.fill(0, 0, length)
  }

  #take(length: number): PackedBytes {
    return this.#buffer.toString('latin1', 0, length)
  }

  #address(at: number, address: IpAddress): void {
    writeAddress(address, this.#buffer, at)
  }

  #port(
    at: number,
    { protocol, port }: { readonly protocol: FrontendProtocol; readonly port: number },
  ): void {
    this.#buffer[at] = protocolNumbers[protocol]
    this.#buffer[at + wordBytes] = port >>> 8
    this.#buffer[at + wordBytes + 1] = port
  }
}
