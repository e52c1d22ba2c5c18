// Prints values of keys, data and comparisons in nft's syntax.
import { readAddress } from '../../address.js'
import { fieldLength, type NfField, typeName } from './fields.js'

/** `"text"`. nft cannot express a quote inside, so it becomes an apostrophe. */
export function quote(text: string): string {
  return `"${text.replaceAll('"', "'")}"`
}

/** A number in network order. */
export function bigEndian(bytes: Uint8Array): number {
  return bytes.reduce((number, byte) => number * 256 + byte, 0)
}

function littleEndian(bytes: Uint8Array): number {
  return bigEndian(bytes.toReversed())
}

function hex(number: number): string {
  return `0x${number.toString(16).padStart(8, '0')}`
}

const protocols: ReadonlyMap<number, string> = new Map([
  [1, 'icmp'],
  [6, 'tcp'],
  [17, 'udp'],
  [58, 'ipv6-icmp'],
  [132, 'sctp'],
])

/** A value of one field. */
export function printField(field: NfField, bytes: Uint8Array): string {
  switch (typeName(field)) {
    case 'ipv4_addr':
      return readAddress(bytes, 0, 'ipv4')
    case 'ipv6_addr':
      return readAddress(bytes, 0, 'ipv6')
    case 'inet_proto':
      return protocols.get(bigEndian(bytes)) ?? String(bigEndian(bytes))
    case 'inet_service':
      return String(bigEndian(bytes))
    case 'mark':
      return hex(littleEndian(bytes))
    case 'ifname': {
      const name = new TextDecoder().decode(bytes)
      const end = name.indexOf('\0')
      // A name without its final NUL matches every interface whose name begins with it.
      return quote(end < 0 ? `${name}*` : name.slice(0, end))
    }
    default:
      return String(littleEndian(bytes))
  }
}

/** The values of a concatenation, separated by ` . `. */
export function printFields(fields: readonly NfField[], bytes: Uint8Array): string {
  let offset = 0
  const values = fields.map((field) => {
    const value = printField(field, bytes.subarray(offset, offset + fieldLength(field)))
    offset += (fieldLength(field) + 3) & ~3
    return value
  })
  return values.join(' . ')
}

/** Bytes of an unknown type, as a hexadecimal number. */
export function printBytes(bytes: Uint8Array): string {
  return `0x${Buffer.from(bytes).toString('hex')}`
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
] as const

/** `1h30m` */
export function printTime(milliseconds: number): string {
  let left = milliseconds
  let text = ''
  for (const [unit, size] of units) {
    const count = Math.floor(left / size)
    left -= count * size
    if (count > 0) text += `${count}${unit}`
  }
  return text === '' ? '0s' : text
}
