// The parts of the mode's rules: matches, lookups and statements, as expressions of nf_tables. Each part loads its registers
// itself, from the first register on. A match that fails ends its rule, and the next rule of the chain follows.
import {
  anonymousSet,
  hostPrefixLength,
  NfElements,
  type NfExpression,
  type NfSet,
  type NfTableKey,
  type NfVerdict,
  packFields,
} from '../../../kernel/index.js'
import type { Cidr, IpFamily } from '../../../address.js'
import { type LocalDetector, loopbackNetworks } from '../../../node/index.js'

export type Expressions = readonly NfExpression[]

/** Loads one field of a concatenation into registers, from `to` on. */
export interface Field {
  readonly load: (to: number) => Expressions
  /** Number of registers. */
  readonly words: number
}

/** Fields of packets of one family. */
export interface PacketFields {
  readonly source: Field
  readonly destination: Field
  readonly protocol: Field
  readonly port: Field
}

export const packetFields: Readonly<Record<IpFamily, PacketFields>> = {
  ipv4: makeFields('ipv4'),
  ipv6: makeFields('ipv6'),
}

function makeFields(family: IpFamily): PacketFields {
  const isIPv4 = family === 'ipv4'
  const words = addressLength(family) / 4
  const address = (offset: number): Field => ({
    load: (to) => [{ kind: 'payload', to, base: 'network', offset, length: words * 4 }],
    words,
  })
  return {
    source: address(isIPv4 ? 12 : 8),
    destination: address(isIPv4 ? 16 : 24),
    protocol: { load: (to) => [{ kind: 'meta', to, key: 'l4proto' }], words: 1 },
    port: { load: (to) => [{ kind: 'payload', to, base: 'transport', offset: 2, length: 2 }], words: 1 },
  }
}

function addressLength(family: IpFamily): number {
  return hostPrefixLength(family) / 8
}

/** The source's network of a prefix length. */
export function sourceNetwork(family: IpFamily, prefixLength: number): Field {
  const { source } = packetFields[family]
  return {
    load: (to) => [...source.load(to), ...masked(to, family, prefixLength)],
    words: source.words,
  }
}

/** Clears the host bits of the address in the register. */
function masked(register: number, family: IpFamily, prefixLength: number): Expressions {
  if (prefixLength === hostPrefixLength(family)) return []
  const length = addressLength(family)
  const mask = Uint8Array.from({ length }, (_, index) => {
    const bits = Math.min(8, Math.max(0, prefixLength - 8 * index))
    return 256 - 2 ** (8 - bits)
  })
  return [{ kind: 'bitwise', from: register, to: register, length, mask, xor: new Uint8Array(length) }]
}

function concat(fields: readonly Field[], from = 0): { readonly loads: Expressions; readonly end: number } {
  let end = from
  const loads = fields.flatMap((field) => {
    const loaded = field.load(end)
    end += field.words
    return loaded
  })
  return { loads, end }
}

/** Matches when the set has the key. */
export function isIn({ set }: NfSet, key: readonly Field[]): Expressions {
  return [...concat(key).loads, { kind: 'lookup', set, from: 0 }]
}

/** A choice of one of some chains: its share, in parts of the sum of all shares, and where it leads. */
export interface Choice {
  readonly share: number
  readonly chain: string
}

/**
 * Goes to one of the chains at random, each as often as its share says: `numgen random mod 2 vmap { 0 : goto a, 1 : goto b }`. Shares
 * that differ make intervals, whose numbers are in network order.
 */
export function goToOneOf(table: NfTableKey, choices: readonly Choice[]): Expressions {
  const isInterval = choices.some(({ share }) => share !== 1)
  const set = anonymousSet(table, { key: ['integer'], data: 'verdict', isInterval })
  const elements = new NfElements(set)
  const keyOf = (number: number): Uint8Array => {
    const key = packFields(['integer'], [number])
    return isInterval ? key.toReversed() : key
  }
  let first = 0
  for (const { share, chain } of choices) {
    elements.add(keyOf(first), { verdict: { code: 'goto', chain } })
    first += share
  }
  if (isInterval) elements.add(keyOf(first), { isIntervalEnd: true })
  const toNetworkOrder: NfExpression = { kind: 'byteorder', from: 0, to: 0, op: 'hton', length: 4, size: 4 }
  return [
    { kind: 'numgen', to: 0, modulus: first, type: 'random' },
    ...(isInterval ? [toNetworkOrder] : []),
    { kind: 'lookup', set: set.set, from: 0, to: 'verdict', elements },
  ]
}

/** Translates the destination to the map's endpoint for the key. Without one, the next rule follows. */
export function dnatBy({ family, set }: NfSet, key: readonly Field[]): Expressions {
  return [
    ...concat(key).loads,
    { kind: 'lookup', set, from: 0, to: 0 },
    { kind: 'nat', type: 'dnat', family, addressMin: 0, portMin: addressLength(family) / 4 },
  ]
}

/** Words of a register as nft allots them: it begins with the next one where it does not concatenate. */
const registerWords = 4

/** Translates the destination to an endpoint: its packed address and its port in network order. */
export function dnatTo(family: IpFamily, address: Uint8Array, port: Uint8Array): Expressions {
  const portMin = registerWords
  return [
    { kind: 'immediate', to: 0, data: { value: address } },
    { kind: 'immediate', to: portMin, data: { value: port } },
    { kind: 'nat', type: 'dnat', family, addressMin: 0, portMin },
  ]
}

/** Translates the destination to one of the endpoints, packed as address . port. Each is equally likely. */
export function dnatToOneOf(table: NfTableKey, endpoints: readonly Uint8Array[]): Expressions {
  const { family } = table
  const address = family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'
  const elements = new NfElements(anonymousSet(table, { key: ['integer'], data: [address, 'inet_service'] }))
  for (const [index, data] of endpoints.entries()) elements.add(packFields(['integer'], [index]), { data })
  return [
    { kind: 'numgen', to: 0, modulus: endpoints.length, type: 'random' },
    { kind: 'lookup', set: elements.set.set, from: 0, to: 0, elements },
    { kind: 'nat', type: 'dnat', family, addressMin: 0, portMin: addressLength(family) / 4 },
  ]
}

/** Goes to the chain of the verdict map's element for the key. Without one, the next rule follows. */
export function leadBy({ set }: NfSet, key: readonly Field[]): Expressions {
  return [...concat(key).loads, { kind: 'lookup', set, from: 0, to: 'verdict' }]
}

/** Matches one of `modulus` packets: `numgen random mod 3 0`. */
export function isOneOf(modulus: number): Expressions {
  return [
    { kind: 'numgen', to: 0, modulus, type: 'random' },
    { kind: 'cmp', from: 0, op: '==', value: packFields(['integer'], [0]) },
  ]
}

/** Stores the key for some time, or starts its time again. Where the set is full, the next rule follows. */
export function update({ set }: NfSet, key: readonly Field[], timeoutMs: number): Expressions {
  return [...concat(key).loads, { kind: 'dynset', set, op: 'update', key: 0, timeoutMs }]
}

/**
 * A number that does not depend on the packet: `meta mark & 0 | 17`. nft 1.0.6 does not read a plain number in a concatenation. The type
 * in a set is `mark`.
 */
export function constantField(number: number): Field {
  return {
    load: (to) => [
      { kind: 'meta', to, key: 'mark' },
      { kind: 'bitwise', from: to, to, length: 4, mask: hostWord(0), xor: hostWord(number) },
    ],
    words: 1,
  }
}

/** The number of `constantField` in these expressions of a rule; undefined: there is none. */
export function constantOf(expressions: Expressions): number | undefined {
  for (const each of expressions) {
    if (each.kind !== 'bitwise' || each.xor?.length !== 4 || each.mask?.some((byte) => byte !== 0) !== false)
      continue
    return new DataView(each.xor.buffer, each.xor.byteOffset).getUint32(0, true)
  }
  return undefined
}

export function isProtocol(number: number): Expressions {
  return [
    { kind: 'meta', to: 0, key: 'l4proto' },
    { kind: 'cmp', from: 0, op: '==', value: Uint8Array.of(number) },
  ]
}

export const count: Expressions = [{ kind: 'counter' }]

const hostWord = (value: number): Uint8Array => packFields(['mark'], [value])

/** `mark set mark | bits`. */
export function setMark(bits: number): Expressions {
  return markChange(~bits, bits)
}

/** `mark & bits != 0`. */
export function hasMark(bits: number): Expressions {
  return [
    { kind: 'meta', to: 0, key: 'mark' },
    { kind: 'bitwise', from: 0, to: 0, length: 4, mask: hostWord(bits), xor: hostWord(0) },
    { kind: 'cmp', from: 0, op: '!=', value: hostWord(0) },
  ]
}

/** `mark set mark ^ bits`. */
export function flipMark(bits: number): Expressions {
  return markChange(-1, bits)
}

/** (mark & mask) ^ xor. */
function markChange(mask: number, xor: number): Expressions {
  return [
    { kind: 'meta', to: 0, key: 'mark' },
    { kind: 'bitwise', from: 0, to: 0, length: 4, mask: hostWord(mask >>> 0), xor: hostWord(xor) },
    { kind: 'meta', key: 'mark', from: 0 },
  ]
}

/** NF_NAT_RANGE_PROTO_RANDOM_FULLY. */
const fullyRandom = 16

export const masquerade: Expressions = [{ kind: 'masq', flags: fullyRandom }]

/** NF_CT_STATE_BIT(IP_CT_NEW). */
const newConnection = 8
/** IPS_DST_NAT. */
const translatedDestination = 32

export const isNew: Expressions = ctBits('state', newConnection)
export const isTranslated: Expressions = ctBits('status', translatedDestination)

function ctBits(key: 'state' | 'status', bits: number): Expressions {
  return [
    { kind: 'ct', to: 0, key },
    { kind: 'bitwise', from: 0, to: 0, length: 4, mask: hostWord(bits), xor: hostWord(0) },
    { kind: 'cmp', from: 0, op: '!=', value: hostWord(0) },
  ]
}

/** NFTA_FIB_F_SADDR, NFTA_FIB_F_DADDR. */
const fibFlags = { saddr: 1, daddr: 2 } as const
/** RTN_LOCAL. */
const localType = 2

/** `fib saddr type local`: an address of this machine. */
export function isLocalAddress(side: keyof typeof fibFlags): Expressions {
  return [
    { kind: 'fib', to: 0, result: 'type', flags: fibFlags[side] },
    { kind: 'cmp', from: 0, op: '==', value: hostWord(localType) },
  ]
}

/** `ip daddr != 127.0.0.0/8`, `ip6 daddr != ::1`. */
export function isNotLoopback(family: IpFamily): Expressions {
  return compareWithLoopback(family, packetFields[family].destination, '!=')
}

/** A packet of another machine to a loopback address: `ip saddr != 127.0.0.0/8 ip daddr 127.0.0.0/8`. */
export function isMartian(family: IpFamily): Expressions {
  const { source, destination } = packetFields[family]
  return [...compareWithLoopback(family, source, '!='), ...compareWithLoopback(family, destination, '==')]
}

function compareWithLoopback(family: IpFamily, field: Field, op: '==' | '!='): Expressions {
  return compareWithNetwork(family, field, { op, network: loopbackNetworks[family] })
}

/**
 * Compares an address with a network as nft does, so that a table that nft has loaded is the same: a network of whole bytes is compared by
 * these bytes, without a mask.
 */
function compareWithNetwork(
  family: IpFamily,
  field: Field,
  { op, network }: { readonly op: '==' | '!='; readonly network: Pick<Cidr, 'address' | 'prefixLength'> },
): Expressions {
  const { address, prefixLength } = network
  const value = packFields([family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'], [address])
  const length = prefixLength / 8
  if (!Number.isInteger(length) || length === 0)
    return [...field.load(0), ...masked(0, family, prefixLength), { kind: 'cmp', from: 0, op, value }]
  const load = field.load(0).map((each) => (each.kind === 'payload' ? { ...each, length } : each))
  return [...load, { kind: 'cmp', from: 0, op, value: value.subarray(0, length) }]
}

/** Whether the detector takes the packet for traffic of this node's pods; `!=`: for other traffic. */
export function isFromPod(family: IpFamily, detector: LocalDetector, op: '==' | '!='): Expressions {
  if (detector.kind === 'interface') {
    const load: NfExpression = { kind: 'meta', to: 0, key: 'iifname' }
    return [load, { kind: 'cmp', from: 0, op, value: interfacePattern(detector.name) }]
  }
  return compareWithNetwork(family, packetFields[family].source, { op, network: detector.cidr })
}

/** The whole name with its padding, or a prefix without. */
function interfacePattern(name: string): Uint8Array {
  return name.endsWith('+') ? new TextEncoder().encode(name.slice(0, -1)) : packFields(['ifname'], [name])
}

export const drop = verdict({ code: 'drop' })
export const returns = verdict({ code: 'return' })

export function jump(chain: string): Expressions {
  return verdict({ code: 'jump', chain })
}

export function goTo(chain: string): Expressions {
  return verdict({ code: 'goto', chain })
}

function verdict(content: NfVerdict): Expressions {
  return [{ kind: 'immediate', to: 'verdict', data: { verdict: content } }]
}

/** ICMP_PORT_UNREACH, ICMPV6_PORT_UNREACH: what nft means by `reject`. */
const portUnreachable: Readonly<Record<IpFamily, number>> = { ipv4: 3, ipv6: 4 }

export function reject(family: IpFamily): Expressions {
  return [{ kind: 'reject', type: 'icmp', code: portUnreachable[family] }]
}
