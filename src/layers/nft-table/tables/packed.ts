// Keys and data of elements as strings of characters 0 to 255, a byte each: half the memory of small Uint8Arrays, compared with
// `===`, and keys of maps as they are.
import { type IpAddress, type IpFamily, readAddress, writeAddress } from '../../../address.js'
import type { Backend, FrontendProtocol } from '../../../routing/index.js'
import type { NftFrontend } from '../compile/desired.js'

/** Bytes as characters. */
export type PackedBytes = string

/** Identity of a frontend: its KEY in the sets (schema.ts). The KEY of a node port is shorter than every other one. */
export type FrontendId = PackedBytes

const protocolNumbers: Readonly<Record<FrontendProtocol, number>> = { tcp: 6, udp: 17, sctp: 132 }
const protocols = ['tcp', 'udp', 'sctp'] as const satisfies readonly FrontendProtocol[]

/** Each field of a key takes whole words. */
const wordBytes = 4
const portBytes = 2 * wordBytes

/** Length of the KEY of a node port: protocol, port. */
export const nodePortIdLength = portBytes

/** Whether the frontend's protocol is UDP. */
export function isUdp(id: FrontendId): boolean {
  return id.charCodeAt(id.length - portBytes) === protocolNumbers.udp
}

export function packBytes(bytes: Uint8Array): PackedBytes {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

/** Packs the keys and data of one family. Keeps one buffer. */
export class Packer {
  readonly addressBytes: number
  /** Bytes of an endpoint: address, port. */
  readonly endpointBytes: number
  readonly #family: IpFamily
  #buffer = Buffer.alloc(64)
  #lastList: readonly Backend[] | undefined
  #lastPacked: PackedBytes = ''

  constructor(family: IpFamily) {
    this.#family = family
    this.addressBytes = family === 'ipv4' ? 4 : 16
    this.endpointBytes = this.addressBytes + wordBytes
  }

  address(address: IpAddress): PackedBytes {
    this.#reserve(this.addressBytes)
    this.#address(0, address)
    return this.#take(this.addressBytes)
  }

  /** KEY of an address frontend or a node port. */
  frontend(frontend: NftFrontend): FrontendId {
    const start = frontend.kind === 'address' ? this.addressBytes : 0
    this.#reserve(start + portBytes)
    if (frontend.kind === 'address') this.#address(0, frontend.address)
    this.#port(start, frontend)
    return this.#take(start + portBytes)
  }

  /** Inverse of frontend(). */
  unpackFrontend(id: FrontendId): NftFrontend {
    const bytes = Buffer.from(id, 'latin1')
    const start = id.length - portBytes
    const protocol = protocols.find((name) => protocolNumbers[name] === bytes[start]) ?? 'tcp'
    const port = bytes.readUInt16BE(start + wordBytes)
    if (id.length === nodePortIdLength) return { kind: 'node-port', protocol, port }
    return { kind: 'address', address: readAddress(bytes, 0, this.#family), protocol, port }
  }

  /** Key of a hairpin connection: endpoint, endpoint, protocol, port. */
  hairpin(hairpin: {
    readonly address: IpAddress
    readonly protocol: FrontendProtocol
    readonly port: number
  }): PackedBytes {
    const { addressBytes } = this
    this.#reserve(2 * addressBytes + portBytes)
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
    this.#reserve(length)
    let at = 0
    for (const { address, port } of list) {
      this.#address(at, address)
      this.#number(at + addressBytes, port)
      at += endpointBytes
    }
    this.#lastPacked = this.#take(length)
    this.#lastList = list
    return this.#lastPacked
  }

  /** Makes room for so many bytes. Former bytes stay there, so each byte is to be written. */
  #reserve(length: number): void {
    if (this.#buffer.length < length) this.#buffer = Buffer.alloc(2 * length)
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
    this.#word(at, protocolNumbers[protocol], 0)
    this.#number(at + wordBytes, port)
  }

  /** A number of two bytes in network order. */
  #number(at: number, number: number): void {
    this.#word(at, number >>> 8, number)
  }

  #word(at: number, first: number, second: number): void {
    this.#buffer[at] = first
    this.#buffer[at + 1] = second
    this.#buffer[at + 2] = 0
    this.#buffer[at + 3] = 0
  }
}
