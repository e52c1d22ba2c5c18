// A frontend as a string of bits. A prefix of the string means a network, then a protocol, then a range of ports.
import { familyOf, readAddress, writeAddress, type IpAddress } from '../../address.js'
import type { Protocol, XtRule } from '../../kernel/index.js'
import { addressOf, type Frontend } from '../../routing/index.js'

/**
 * +-----------------------+-------------------+------------------+
 * | address: 0, 4 or 16 B | protocol: 1 B     | port: 2 B        |
 * +-----------------------+-------------------+------------------+
 * The key is read in digits of two bits, in order. The protocol is one digit; its other bits are zero.
 */
export type DispatchKey = Uint8Array

/** A part of all frontends: those whose keys have a common beginning. */
export interface Part {
  /** The match of a rule that covers the whole part; no property: everything. */
  readonly match: Pick<XtRule, 'destination' | 'protocol' | 'destinationPorts'>
  readonly text: string
}

const protocols: readonly Protocol[] = ['tcp', 'udp', 'sctp']
/** Bytes of a key behind the address. */
const tailBytes = 3

export function dispatchKey(frontend: Frontend): DispatchKey {
  const { protocol, port } = frontend
  const address = addressOf(frontend)
  const addressBytes = address === undefined ? 0 : addressSize(address)
  const key = new Uint8Array(addressBytes + tailBytes)
  if (address !== undefined) writeAddress(address, key, 0)
  key[addressBytes] = protocols.indexOf(protocol)
  key[addressBytes + 1] = port >>> 8
  key[addressBytes + 2] = port
  return key
}

function addressSize(address: IpAddress): number {
  return familyOf(address) === 'ipv4' ? 4 : 16
}

/** The two bits at a place of the key. */
export function digitAt(key: DispatchKey, place: number): number {
  return ((key[place >>> 2] ?? 0) >>> (6 - 2 * (place & 3))) & 3
}

/** First place where the keys differ; their number of digits if they are equal. Both have the same length. */
export function firstDifference(a: DispatchKey, b: DispatchKey): number {
  for (let i = 0; i < a.length; i++) {
    const difference = (a[i] ?? 0) ^ (b[i] ?? 0)
    if (difference !== 0) return 4 * i + ((Math.clz32(difference) - 24) >>> 1)
  }
  return 4 * a.length
}

/** All frontends whose keys begin with the first `digits` digits of this one. */
export function partOf(key: DispatchKey, digits: number): Part {
  const addressBytes = key.length - tailBytes
  const addressBits = addressBytes * 8
  const bits = 2 * digits
  const ports = portsPart(key.subarray(addressBytes), bits - addressBits)
  if (addressBytes === 0) return ports
  const prefixLength = Math.min(bits, addressBits)
  if (prefixLength === 0) return { match: {}, text: '' }
  const address = networkOf(key, addressBytes, prefixLength)
  const match = { destination: { address, prefixLength }, ...ports.match }
  return { match, text: ports.text === '' ? `${address}/${prefixLength}` : `${address}/${ports.text}` }
}

/** Whether the first `digits` digits restrict nothing: partOf() is everything. */
export function isWholePart(key: DispatchKey, digits: number): boolean {
  return key.length === tailBytes ? digits < 4 : digits === 0
}

function networkOf(key: DispatchKey, addressBytes: number, prefixLength: number): IpAddress {
  const bytes = new Uint8Array(16)
  for (let i = 0; i < addressBytes; i++) {
    const kept = Math.min(Math.max(prefixLength - 8 * i, 0), 8)
    bytes[i] = (key[i] ?? 0) & (0xff00 >>> kept)
  }
  return readAddress(bytes, 0, addressBytes === 4 ? 'ipv4' : 'ipv6')
}

/** The part by the protocol and port bytes, of which `bits` bits count. Fewer bits than the protocol mean every port of every protocol. */
function portsPart(tail: DispatchKey, bits: number): Part {
  const protocol = protocols[tail[0] ?? 0]
  if (bits < 8 || protocol === undefined) return { match: {}, text: '' }
  const free = 0xffff >>> (bits - 8)
  if (free === 0xffff) return { match: { protocol }, text: protocol }
  const port = ((tail[1] ?? 0) << 8) | (tail[2] ?? 0)
  const first = port & ~free
  const last = port | free
  return { match: { protocol, destinationPorts: [first, last] }, text: `${protocol}/${first}-${last}` }
}
