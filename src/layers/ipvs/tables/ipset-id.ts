// Identity of an entry within its set, from an object and from the bytes of a dump alike. So a dump is compared without an object
// for each entry (an object costs 500-900 ns, a look into a Map some 100 ns).
import type { IpAddress, IpFamily } from '../../../address.js'
import { BugError } from '../../../errors.js'
import {
  type IpsetEntry,
  ipsetEntryLayout as layout,
  type IpsetType,
  type Protocol,
  recordBuffer,
  writeIpsetEntry,
} from '../../../kernel/index.js'

/** A number if it fits, otherwise characters; it is never shown. */
export type EntryId = (number | string) & { readonly brand: 'EntryId' }

/** IPPROTO_* of the protocols of Services, in two bits: 32 + 16 + 2 bits fit a double exactly. */
const shortProtocols: ReadonlyMap<number, number> = new Map([
  [6, 0],
  [17, 1],
  [132, 2],
])

const scratch = recordBuffer(layout.size)

/** The identity of an entry in a set of the type. */
export function entryIdOf(type: IpsetType, family: IpFamily, entry: IpsetEntry): EntryId {
  scratch.bytes.fill(0)
  if (!writeIpsetEntry(scratch, 0, { type, family }, entry))
    throw new BugError(`no entry of an ${family} ${type}: ${JSON.stringify(entry)}`)
  return entryIdAt(type, family, scratch.bytes, 0)
}

/** The identity of a frontend, which most sets hold. */
export function frontendIdOf(address: IpAddress, protocol: Protocol, port: number): EntryId {
  const family = address.includes(':') ? 'ipv6' : 'ipv4'
  return entryIdOf('hash:ip,port', family, { address, protocol, port })
}

/** The identity of the record at an offset of a dump. */
export function entryIdAt(type: IpsetType, family: IpFamily, bytes: Buffer, at: number): EntryId {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return idAt(type, family, bytes, at) as EntryId
}

function idAt(type: IpsetType, family: IpFamily, bytes: Buffer, at: number): number | string {
  switch (type) {
    case 'bitmap:port':
      return bytes.readUInt16LE(at + layout.port)
    case 'hash:ip':
      return family === 'ipv4' ? bytes.readUInt32BE(at + layout.address) : addressAt(bytes, at)
    case 'hash:ip,port':
      return family === 'ipv4' ? frontend4At(bytes, at) : frontend6At(bytes, at)
    default:
      return partsAt(bytes, at)
  }
}

function frontend4At(bytes: Buffer, at: number): number | string {
  const protocol = shortProtocols.get(bytes.readUInt8(at + layout.protocol))
  if (protocol === undefined) return partsAt(bytes, at)
  return (
    bytes.readUInt32BE(at + layout.address) * 2 ** 18 + bytes.readUInt16LE(at + layout.port) * 4 + protocol
  )
}

function frontend6At(bytes: Buffer, at: number): string {
  const rest = bytes.readUInt16LE(at + layout.port) * 256 + bytes.readUInt8(at + layout.protocol)
  return `${addressAt(bytes, at)}${rest}`
}

function addressAt(bytes: Buffer, at: number): string {
  return bytes.toString('latin1', at + layout.address, at + layout.address + 16)
}

/** Both addresses, then port, family, protocol and prefix length, which lie side by side. */
function partsAt(bytes: Buffer, at: number): string {
  return (
    bytes.toString('latin1', at + layout.address, at + layout.secondAddress + 16) +
    bytes.toString('latin1', at + layout.port, at + layout.prefixLength + 1)
  )
}

/** The mark of an entry; 0: it has none. */
export type CarriedMark = number

/** A mark, or a state, that Viaduct never writes: adding the entry again makes it ours. */
export const foreignMark: CarriedMark = -2

/** The mark of the record at an offset of a dump. `ours`: the mask of the marks that Viaduct writes. */
export function carriedMarkAt(bytes: Buffer, at: number, ours: number): CarriedMark {
  if (bytes.readUInt8(at + layout.isException) !== 0) return foreignMark
  const mark = bytes.readUInt32LE(at + layout.mark)
  const mask = bytes.readUInt32LE(at + layout.markMask)
  if (mask === 0 && mark === 0) return 0
  return mask === ours ? mark : foreignMark
}
