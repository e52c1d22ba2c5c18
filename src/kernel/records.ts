// The packed records that cross into native/ (native/ipvs/record.h, native/route/record.h): little endian, host byte
// order for numbers, addresses 16 bytes in network order, padding zero.
import { readAddress, type IpAddress, type IpFamily } from '../address.js'
import { BugError } from '../errors.js'

/** Size of a record and the byte offset of each of its fields. */
export type RecordLayout = Readonly<Record<string, number>> & { readonly size: number }

export const virtualServerLayout = {
  size: 64,
  address: 0,
  scheduler: 16,
  mark: 32,
  flags: 36,
  flagsMask: 40,
  timeoutSeconds: 44,
  firstReal: 48,
  realCount: 52,
  port: 56,
  family: 58,
  protocol: 59,
  netmaskLength: 60,
} as const satisfies RecordLayout

export const realServerLayout = {
  size: 40,
  address: 0,
  weight: 16,
  upperThreshold: 20,
  lowerThreshold: 24,
  port: 28,
  tunnelPort: 30,
  tunnelFlags: 32,
  family: 34,
  forwarding: 35,
  tunnelType: 36,
} as const satisfies RecordLayout

export const opLayout = { size: 12, virtualServer: 0, realServer: 4, op: 8 } as const satisfies RecordLayout

export const countersLayout = {
  size: 56,
  connections: 0,
  inPackets: 8,
  outPackets: 16,
  inBytes: 24,
  outBytes: 32,
  activeConnections: 40,
  inactiveConnections: 44,
  persistentConnections: 48,
} as const satisfies RecordLayout

export const routeLayout = {
  size: 56,
  destination: 0,
  preferredSource: 16,
  interfaceIndex: 32,
  metric: 36,
  table: 40,
  op: 44,
  family: 45,
  prefixLength: 46,
  protocol: 47,
  type: 48,
  scope: 49,
  tos: 50,
} as const satisfies RecordLayout

export const addressLayout = {
  size: 32,
  address: 0,
  interfaceIndex: 16,
  flags: 20,
  op: 24,
  family: 25,
  prefixLength: 26,
  scope: 27,
} as const satisfies RecordLayout

export const linkLayout = {
  size: 48,
  name: 0,
  kind: 16,
  index: 32,
  flags: 36,
  op: 40,
} as const satisfies RecordLayout

export const eventLayout = {
  size: 40,
  interfaceIndex: 0,
  kind: 4,
  op: 5,
  family: 6,
  prefixLength: 7,
  address: 8,
  name: 24,
} as const satisfies RecordLayout

/** One operation on an x_tables table (native/xtables/record.h). */
export const xtChainLayout = {
  size: 16,
  name: 0,
  firstRule: 4,
  ruleCount: 8,
  op: 12,
} as const satisfies RecordLayout

export const xtRuleLayout = {
  size: 120,
  source: 0,
  destination: 16,
  natAddress: 32,
  inInterface: 48,
  outInterface: 52,
  comment: 56,
  targetChain: 60,
  recentList: 64,
  setName: 68,
  markValue: 72,
  markMask: 76,
  targetValue: 80,
  targetMask: 84,
  probability: 88,
  recentSeconds: 92,
  sourcePortFrom: 96,
  sourcePortTo: 98,
  destinationPortFrom: 100,
  destinationPortTo: 102,
  natPort: 104,
  state: 106,
  matches: 108,
  inverts: 110,
  sourcePrefix: 112,
  destinationPrefix: 113,
  protocol: 114,
  target: 115,
  recentCheck: 116,
  addressType: 117,
  setDimensions: 118,
  setSources: 119,
} as const satisfies RecordLayout

/** native/conntrack/record.h */
export const conntrackFrontendLayout = {
  size: 24,
  address: 0,
  backendSet: 16,
  port: 20,
  protocol: 22,
  isNodePort: 23,
} as const satisfies RecordLayout

export const conntrackBackendLayout = {
  size: 24,
  address: 0,
  backendSet: 16,
  port: 20,
} as const satisfies RecordLayout

export const conntrackAddressLayout = { size: 16, address: 0 } as const satisfies RecordLayout

/** A set (native/ipset/record.h). */
export const ipsetSetLayout = {
  size: 84,
  name: 0,
  type: 32,
  maxElements: 64,
  hashSize: 68,
  references: 72,
  elementCount: 76,
  family: 80,
  extensions: 81,
} as const satisfies RecordLayout

export const ipsetEntryLayout = {
  size: 52,
  address: 0,
  secondAddress: 16,
  mark: 32,
  markMask: 36,
  commentOffset: 40,
  port: 44,
  family: 46,
  protocol: 47,
  prefixLength: 48,
  commentLength: 49,
  isException: 50,
} as const satisfies RecordLayout

export const ipsetOpLayout = { size: 12, set: 0, object: 4, op: 8 } as const satisfies RecordLayout

/** One failed record of a batch (native/binding/values.h). */
export const failureLayout = {
  size: 20,
  index: 0,
  errno: 4,
  textOffset: 8,
  textLength: 12,
  unknown: 16,
} as const satisfies RecordLayout

/** Every record of the boundary, by the name under which the addon exports its layout. */
export const layouts = {
  virtualServer: virtualServerLayout,
  realServer: realServerLayout,
  op: opLayout,
  counters: countersLayout,
  route: routeLayout,
  address: addressLayout,
  link: linkLayout,
  event: eventLayout,
  xtChain: xtChainLayout,
  xtRule: xtRuleLayout,
  conntrackFrontend: conntrackFrontendLayout,
  conntrackBackend: conntrackBackendLayout,
  conntrackAddress: conntrackAddressLayout,
  ipsetSet: ipsetSetLayout,
  ipsetEntry: ipsetEntryLayout,
  ipsetOp: ipsetOpLayout,
  failure: failureLayout,
} as const

/** Throws BugError that names the first field on which the addon and this file differ. */
export function checkLayouts(native: Readonly<Record<string, Readonly<Record<string, number>>>>): void {
  for (const [record, layout] of Object.entries(layouts)) {
    const fields = new Set([...Object.keys(layout), ...Object.keys(native[record] ?? {})])
    for (const field of fields) {
      const ours = (layout as RecordLayout)[field]
      const theirs = native[record]?.[field]
      if (ours === theirs) continue
      throw new BugError(
        `the addon's ${record}.${field} is at ${theirs ?? 'no'} byte, this build's at ${ours ?? 'no'}: build both from the same source`,
      )
    }
  }
}

/** AF_INET and AF_INET6 of linux/socket.h. */
export const addressFamily = { ipv4: 2, ipv6: 10 } as const

export function familyFromByte(byte: number): IpFamily {
  return byte === addressFamily.ipv6 ? 'ipv6' : 'ipv4'
}

/** Longest prefix of a family: a single address. */
export function hostPrefixLength(family: IpFamily): number {
  return family === 'ipv4' ? 32 : 128
}

/** A table of equal records: what the cursors have in common. Reads past the end throw RangeError. */
export class RecordTable {
  readonly length: number
  protected readonly bytes: Uint8Array
  protected readonly view: DataView
  readonly #size: number

  constructor(bytes: Uint8Array, layout: RecordLayout) {
    if (bytes.byteLength % layout.size !== 0) {
      throw new BugError(`${bytes.byteLength} bytes are no whole number of ${layout.size}-byte records`)
    }
    this.bytes = bytes
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#size = layout.size
    this.length = bytes.byteLength / layout.size
  }

  protected u8(index: number, offset: number): number {
    return this.view.getUint8(index * this.#size + offset)
  }

  protected u16(index: number, offset: number): number {
    return this.view.getUint16(index * this.#size + offset, true)
  }

  protected u32(index: number, offset: number): number {
    return this.view.getUint32(index * this.#size + offset, true)
  }

  protected i32(index: number, offset: number): number {
    return this.view.getInt32(index * this.#size + offset, true)
  }

  /** As a number: exact below 2^53, 9 petabytes. */
  protected u64(index: number, offset: number): number {
    return this.u32(index, offset) + this.u32(index, offset + 4) * 2 ** 32
  }

  protected ip(index: number, offset: number, family: IpFamily): IpAddress {
    return readAddress(this.bytes, index * this.#size + offset, family)
  }

  /** ASCII text, NUL padded to 16 bytes. */
  protected text(index: number, offset: number): string {
    const start = index * this.#size + offset
    let text = ''
    for (let i = start; i < start + 16; i++) {
      const code = this.bytes[i] ?? 0
      if (code === 0) break
      text += String.fromCharCode(code)
    }
    return text
  }
}

/** One buffer under both of its views. */
export interface RecordBuffer {
  readonly bytes: Buffer
  readonly view: DataView
}

/** A zeroed buffer. */
export function recordBuffer(size: number): RecordBuffer {
  const bytes = Buffer.alloc(size)
  return { bytes, view: new DataView(bytes.buffer) }
}

/** Writes ASCII text NUL padded into a zeroed field of 16 bytes. */
export function writeText(bytes: Uint8Array, offset: number, text: string): void {
  if (text.length > 15) throw new BugError(`"${text}" is longer than the 15 characters the kernel keeps`)
  for (let i = 0; i < text.length; i++) bytes[offset + i] = text.charCodeAt(i)
}
