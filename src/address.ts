// IP addresses and CIDRs in canonical text, and their 16-byte form. No library is used: libraries are ten times slower, and accept
// other forms than kube-proxy does. The property tests compare this code with node:net.
export type IpFamily = 'ipv4' | 'ipv6'
/** Canonical text (RFC 5952 for IPv6): equal addresses are equal strings. */
export type IpAddress = string & { readonly brand: 'IpAddress' }

/** A network. `address` has no bit set after `prefixLength`. */
export interface Cidr {
  readonly family: IpFamily
  readonly address: IpAddress
  readonly prefixLength: number
}

const dot = 0x2e
const colon = 0x3a

/** Value of the decimal digits of text[start, end); -1: the range is empty, has another character, or exceeds `limit`. */
function parseDecimal(text: string, start: number, end: number, limit: number): number {
  if (start >= end) return -1
  let value = 0
  for (let i = start; i < end; i++) {
    const digit = text.charCodeAt(i) - 0x30
    if (!(digit >= 0 && digit <= 9)) return -1
    value = value * 10 + digit
    if (value > limit) return -1
  }
  return value
}

/** The 32-bit value of the text from `start` on; -1: not an address. Leading zeroes are decimal, as in kube-proxy's ParseIPSloppy. */
function parseIpv4(text: string, start: number): number {
  let value = 0 // signed 32-bit until the end: larger numbers are slower
  let octet = -1 // -1: no digit yet
  let dots = 0
  for (let i = start; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === dot) {
      if (octet < 0 || dots === 3) return -1
      value = (value << 8) | octet
      octet = -1
      dots++
    } else {
      const digit = code - 0x30
      if (!(digit >= 0 && digit <= 9)) return -1
      octet = octet < 0 ? digit : octet * 10 + digit
      if (octet > 255) return -1
    }
  }
  return octet < 0 || dots !== 3 ? -1 : ((value << 8) | octet) >>> 0
}

/** Whether an octet of an IPv4 address has a leading zero. */
function hasLeadingZero(text: string): boolean {
  for (let i = 0; i + 1 < text.length; i++) {
    const isFirst = i === 0 || text.charCodeAt(i - 1) === dot
    if (isFirst && text.charCodeAt(i) === 0x30 && text.charCodeAt(i + 1) !== dot) return true
  }
  return false
}

/** The only function that marks text as canonical. */
function brand(canonical: string): IpAddress {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return canonical as IpAddress
}

function formatIpv4(value: number): IpAddress {
  return brand(`${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`)
}

function writeIpv4(value: number, bytes: Uint8Array, offset: number): void {
  bytes[offset] = value >>> 24
  bytes[offset + 1] = value >>> 16
  bytes[offset + 2] = value >>> 8
  bytes[offset + 3] = value
}

function readUint32(bytes: Uint8Array, offset: number): number {
  return ((readUint16(bytes, offset) << 16) | readUint16(bytes, offset + 2)) >>> 0
}

function readUint16(bytes: Uint8Array, offset: number): number {
  return ((bytes[offset] ?? 0) << 8) | (bytes[offset + 1] ?? 0)
}

function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = code | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

/** Moves the groups after `::` to the end and fills the gap with zeroes. False: the number of groups is wrong. */
function expandEllipsis(bytes: Uint8Array, base: number, ellipsis: number, filled: number): boolean {
  if (ellipsis < 0) return filled === 16
  if (filled === 16) return false
  bytes.copyWithin(base + ellipsis + 16 - filled, base + ellipsis, base + filled)
  bytes.fill(0, base + ellipsis, base + ellipsis + 16 - filled)
  return true
}

/** Writes 16 bytes at `base`. False: not an IPv6 address; the bytes are then undefined. Zones are refused. */
function parseIpv6(text: string, bytes: Uint8Array, base: number): boolean {
  let filled = 0
  let ellipsis = -1
  let i = 0
  if (text.charCodeAt(0) === colon) {
    if (text.charCodeAt(1) !== colon) return false
    ellipsis = 0
    i = 2
  }
  while (i < text.length && filled < 16) {
    const start = i
    let group = 0
    for (let digit; i < text.length && (digit = hexDigit(text.charCodeAt(i))) >= 0; i++) {
      group = group * 16 + digit
      if (group > 0xffff) return false
    }
    if (text.charCodeAt(i) === dot) {
      const value = filled <= 12 ? parseIpv4(text, start) : -1
      if (value < 0) return false
      writeIpv4(value, bytes, base + filled)
      return expandEllipsis(bytes, base, ellipsis, filled + 4)
    }
    if (i === start) return false
    bytes[base + filled] = group >>> 8
    bytes[base + filled + 1] = group
    filled += 2
    if (i === text.length) break
    if (text.charCodeAt(i) !== colon || ++i === text.length) return false
    if (text.charCodeAt(i) === colon) {
      if (ellipsis >= 0) return false
      ellipsis = filled
      i++
    }
  }
  return i === text.length && expandEllipsis(bytes, base, ellipsis, filled)
}

/** RFC 5952: lower case; `::` replaces the longest run of two or more zero groups, the first of equal runs. */
function formatIpv6(bytes: Uint8Array, offset: number): IpAddress {
  let gapStart = -1
  let gapLength = 1
  for (let group = 0, run = 0; group < 8; group++) {
    run = readUint16(bytes, offset + 2 * group) === 0 ? run + 1 : 0
    if (run > gapLength) {
      gapLength = run
      gapStart = group - run + 1
    }
  }
  let text = ''
  for (let group = 0; group < 8; group++) {
    if (group === gapStart) {
      text += '::'
      group += gapLength - 1
      continue
    }
    if (text !== '' && !text.endsWith(':')) text += ':'
    text += readUint16(bytes, offset + 2 * group).toString(16)
  }
  return brand(text)
}

/** ::ffff:0:0/96. Go's net package, and so kube-proxy, treats these addresses as IPv4. */
function isIpv4Mapped(bytes: Uint8Array): boolean {
  return readUint16(bytes, 10) === 0xffff && bytes.subarray(0, 10).every((byte) => byte === 0)
}

/**
 * The address in canonical text; undefined: not an address. Accepts the same forms as kube-proxy (Go's ParseIPSloppy):
 * leading zeroes are dropped, and `::ffff:1.2.3.4` is 1.2.3.4. Zones, blanks and prefix lengths are refused.
 */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (!text.includes(':')) {
    const value = parseIpv4(text, 0)
    if (value < 0) return undefined
    // The text is nearly always canonical. Its reuse saves a string.
    return hasLeadingZero(text) ? formatIpv4(value) : brand(text)
  }
  const bytes = new Uint8Array(16)
  if (!parseIpv6(text, bytes, 0)) return undefined
  return isIpv4Mapped(bytes) ? formatIpv4(readUint32(bytes, 12)) : formatIpv6(bytes, 0)
}

export function familyOf(address: IpAddress): IpFamily {
  return address.includes(':') ? 'ipv6' : 'ipv4'
}

/** fe80::/10. */
export function isLinkLocal(address: IpAddress): boolean {
  return /^fe[89ab]/u.test(address)
}

/** Writes the address into 16 zeroed bytes, in network order; IPv4 fills the first four. Returns its family. */
export function writeAddress(address: IpAddress, bytes: Uint8Array, offset: number): IpFamily {
  const value = parseIpv4(address, 0)
  if (value < 0) {
    parseIpv6(address, bytes, offset)
    return 'ipv6'
  }
  writeIpv4(value, bytes, offset)
  return 'ipv4'
}

/** Inverse of writeAddress(). */
export function readAddress(bytes: Uint8Array, offset: number, family: IpFamily): IpAddress {
  return family === 'ipv4' ? formatIpv4(readUint32(bytes, offset)) : formatIpv6(bytes, offset)
}

/** `1.2.3.4:80`, `[fd00::1]:80`. */
export function formatEndpoint(address: IpAddress, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

function clearHostBits(bytes: Uint8Array, prefixLength: number): void {
  const whole = prefixLength >>> 3
  const rest = prefixLength & 7
  if (rest !== 0) bytes[whole] = (bytes[whole] ?? 0) & (0xff << (8 - rest))
  bytes.fill(0, rest === 0 ? whole : whole + 1)
}

/** The network of a CIDR, without host bits; undefined: not a CIDR. Accepts the same forms as kube-proxy. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/')
  if (slash < 0) return undefined
  const written = text.slice(0, slash)
  const address = parseIpAddress(written)
  if (address === undefined) return undefined
  const family = familyOf(address)
  // An IPv4-mapped CIDR counts its prefix from the first of 128 bits.
  const skipped = family === 'ipv4' && written.includes(':') ? 96 : 0
  const length = parseDecimal(text, slash + 1, text.length, 128)
  const prefixLength = length - skipped
  if (length < 0 || prefixLength < 0 || prefixLength > (family === 'ipv4' ? 32 : 128)) return undefined
  const bytes = new Uint8Array(16)
  writeAddress(address, bytes, 0)
  clearHostBits(bytes, prefixLength)
  return { family, address: readAddress(bytes, 0, family), prefixLength }
}

/** `10.0.0.0/8`: equal networks are equal strings. */
export function formatCidr({ address, prefixLength }: Cidr): string {
  return `${address}/${prefixLength}`
}

export function cidrContains(cidr: Cidr, address: IpAddress): boolean {
  if (familyOf(address) !== cidr.family) return false
  const bytes = new Uint8Array(16)
  writeAddress(address, bytes, 0)
  clearHostBits(bytes, cidr.prefixLength)
  return readAddress(bytes, 0, cidr.family) === cidr.address
}

/** A search of so few addresses is as fast as one in a set. Nearly all lists are shorter. */
const shortList = 16

/** The longer lists that were searched, as sets. */
const sets = new WeakMap<readonly IpAddress[], ReadonlySet<IpAddress>>()

/**
 * Whether the list has the address. For all addresses of another list, the time grows with the length of both, not with their product:
 * authors of Services decide how long the lists are. NB: the list must not change.
 */
export function hasAddress(list: readonly IpAddress[], address: IpAddress): boolean {
  if (list.length <= shortList) return list.includes(address)
  let set = sets.get(list)
  if (set === undefined) {
    set = new Set(list)
    sets.set(list, set)
  }
  return set.has(address)
}
