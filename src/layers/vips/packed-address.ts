// Addresses in the bytes of a dump, without an object for each.
import { type IpAddress, type IpFamily, writeAddress } from '../../address.js'

/** Identity of an address in a Map, from text and from packed bytes alike: a number for IPv4, 16 characters for IPv6. */
export type PackedAddress = (number | string) & { readonly brand: 'PackedAddress' }

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

export function bufferOver(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
