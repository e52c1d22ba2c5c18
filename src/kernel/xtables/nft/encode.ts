// Encodes rules as iptables-nft 1.8.4 does: later versions read that, and 1.8.4 and 1.8.7 silently drop the native port and mark
// expressions of later versions.
import { writeAddress, type IpFamily } from '../../../address.js'
import { protocolNumber } from '../../ipvs/encode.js'
import type { NfVerdict } from '../../nftables/data.js'
import type { NfExpression } from '../../nftables/expressions.js'
import type { NfRule } from '../../nftables/nftables.js'
import { hostPrefixLength } from '../../records.js'
import {
  hasLateComment,
  type XtInterface,
  type XtNetwork,
  type XtRule,
  type XtSet,
  type XtTarget,
} from '../xtables.js'
import { type InfoLayout, matches, targets } from './info.js'

/** Facts outside a rule that encoding needs. */
export interface EncodeContext {
  readonly family: IpFamily
  /** The kernel's number of a set. The rules of the caller name no other sets. */
  readonly indexOf: (set: string) => number
}

export type EncodedXtRule = Pick<NfRule, 'expressions' | 'compat' | 'comment'>

/** Bytes from the start of the network header. */
export const addressOffsets = {
  ipv4: { source: 12, destination: 16, length: 4 },
  ipv6: { source: 8, destination: 24, length: 16 },
} as const

export const addressTypeFlags = { source: 1, destination: 2 } as const
/** XT_ADDRTYPE_LOCAL of linux/netfilter/xt_addrtype.h. */
export const localAddress = 4
/** Bits of the action of a `recent` match. */
export const recentAction = { check: 1, set: 2, reap: 0x20 } as const
/** NF_NAT_RANGE_PROTO_RANDOM_FULLY. */
export const randomFully = 0x10
/** Probabilities of the statistic match have units of 2^-31. */
export const chances = 2 ** 31
/** IPT_ICMP_PORT_UNREACHABLE and IP6T_ICMP6_PORT_UNREACH. */
export const portUnreachable = { ipv4: 3, ipv6: 4 } as const
/** XT_SCTP_SRC_PORTS and XT_SCTP_DEST_PORTS. */
export const sctpFlags = { source: 1, destination: 2 } as const
const anyPort = [0, 65_535] as const
const noPort = [0, 0] as const

/**
 * A rule as it is written. The rule must be valid (encodeXtBatch). A comment that comes last is a comment of nf_tables: iptables-nft reads it
 * as the last match, and nft loads it. The match `comment` is what nft 1.1.7 lists in the middle of a rule, and then does not load.
 */
export function encodeXtRule(rule: XtRule, context: EncodeContext): EncodedXtRule {
  const { protocol, comment } = rule
  return {
    expressions: [
      ...headerOf(rule, context.family),
      ...matchesOf(rule, context),
      { kind: 'counter' },
      targetOf(rule.target, context),
    ],
    ...(protocol === undefined ? {} : { compat: { protocol: protocolNumber[protocol] } }),
    ...(comment !== undefined && hasLateComment(rule.target) ? { comment } : {}),
  }
}

function* headerOf(rule: XtRule, family: IpFamily): Generator<NfExpression> {
  const { protocol, inInterface, outInterface, source, destination } = rule
  if (protocol !== undefined) {
    yield { kind: 'meta', to: 0, key: 'l4proto' }
    yield compare(Uint8Array.of(protocolNumber[protocol]), undefined)
  }
  if (inInterface !== undefined) yield* interfaceOf('iifname', inInterface)
  if (outInterface !== undefined) yield* interfaceOf('oifname', outInterface)
  if (source !== undefined) yield* networkOf(source, family, 'source')
  if (destination !== undefined) yield* networkOf(destination, family, 'destination')
}

function compare(value: Uint8Array, isInverted: boolean | undefined): NfExpression {
  return { kind: 'cmp', from: 0, op: isInverted === true ? '!=' : '==', value }
}

/** A name is compared with its NUL, a prefix without. */
function* interfaceOf(
  key: 'iifname' | 'oifname',
  { name, isInverted }: XtInterface,
): Generator<NfExpression> {
  const isPrefix = name.endsWith('+')
  if (name === '+' && isInverted !== true) return
  yield { kind: 'meta', to: 0, key }
  yield compare(Buffer.from(isPrefix ? name.slice(0, -1) : `${name}\0`), isInverted)
}

/** A mask of `length` bytes with the first `bits` set. */
export function prefixMask(bits: number, length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => 0xff & (0xff00 >> Math.min(8, Math.max(0, bits - 8 * i))))
}

function* networkOf(
  { address, prefixLength, isInverted }: XtNetwork,
  family: IpFamily,
  side: 'source' | 'destination',
): Generator<NfExpression> {
  if (prefixLength === 0 && isInverted !== true) return
  const { [side]: offset, length } = addressOffsets[family]
  const value = new Uint8Array(length)
  writeAddress(address, value, 0)
  yield { kind: 'payload', to: 0, base: 'network', offset, length }
  if (prefixLength < hostPrefixLength(family)) {
    const mask = prefixMask(prefixLength, length)
    for (const [i, bits] of mask.entries()) value[i] = (value[i] ?? 0) & bits
    yield { kind: 'bitwise', from: 0, to: 0, length, mask, xor: new Uint8Array(length) }
  }
  yield compare(value, isInverted)
}

function match<V>(layout: InfoLayout<V>, values: Partial<V>): NfExpression {
  return { kind: 'match', name: layout.name, revision: layout.revision, info: layout.encode(values) }
}

function flag(isSet: boolean | undefined): number {
  return isSet === true ? 1 : 0
}

function* matchesOf(rule: XtRule, { family, indexOf }: EncodeContext): Generator<NfExpression> {
  const { mark, addressType, state, set, probability, recent } = rule
  if (rule.comment !== undefined && !hasLateComment(rule.target))
    yield match(matches.comment, { comment: rule.comment })
  if (rule.sourcePorts !== undefined || rule.destinationPorts !== undefined) yield portsOf(rule)
  if (mark !== undefined) yield match(matches.mark, { ...mark, isInverted: flag(mark.isInverted) })
  if (addressType !== undefined) {
    const { of, isInverted } = addressType
    yield match(matches.addrtype, {
      [of]: localAddress,
      flags: isInverted === true ? addressTypeFlags[of] : 0,
    })
  }
  if (state !== undefined)
    yield match(matches.conntrack, { states: state.bits, isInverted: flag(state.isInverted) })
  if (rule.isUnconfirmed === true) yield match(matches.unconfirmed, {})
  if (rule.isSourceDestination === true) yield match(matches.bpf, addressProgram(family))
  if (set !== undefined) yield match(matches.set, setOf(set, indexOf))
  if (probability !== undefined)
    yield match(matches.statistic, { probability: Math.round(probability * chances) })
  if (recent !== undefined) {
    const { list, action, seconds } = recent
    const bits = recentAction[action] | (seconds === undefined ? 0 : recentAction.reap)
    yield match(matches.recent, { list, action: bits, ...(seconds === undefined ? {} : { seconds }) })
  }
}

function portsOf({ protocol, sourcePorts, destinationPorts }: XtRule): NfExpression {
  const isSctp = protocol === 'sctp'
  const others = isSctp ? noPort : anyPort
  const [sourceFrom, sourceTo] = sourcePorts ?? others
  const [destinationFrom, destinationTo] = destinationPorts ?? others
  const ports = { sourceFrom, sourceTo, destinationFrom, destinationTo }
  if (!isSctp) return match(protocol === 'udp' ? matches.udp : matches.tcp, ports)
  const source = sourcePorts === undefined ? 0 : sctpFlags.source
  const destination = destinationPorts === undefined ? 0 : sctpFlags.destination
  return match(matches.sctp, { ...ports, flags: source | destination })
}

// Bit n of the flags stands for dimension n, counted from 1. Bit 0 inverts.
function setOf(
  { name, directions, isInverted }: XtSet,
  indexOf: EncodeContext['indexOf'],
): { readonly index: number; readonly dimensions: number; readonly flags: number } {
  const sources = directions.reduce((bits, side, i) => (side === 'src' ? bits | (2 << i) : bits), 0)
  return { index: indexOf(name), dimensions: directions.length, flags: sources | flag(isInverted) }
}

// sock_filter of linux/filter.h: code, jumps if true and false, value.
const instruction = { loadWord: 0x20, copyToX: 0x07, jumpIfEqualX: 0x1d, return: 0x06 } as const
const instructionSize = 8

/** Compares source and destination word by word, like native/xtables/match_encoder.cc. Offsets are those of the network header. */
export function addressProgram(family: IpFamily): { readonly length: number; readonly program: Uint8Array } {
  const { source, destination, length } = addressOffsets[family]
  const words = length / 4
  const statements = Array.from({ length: words }, (_, word) => [
    [instruction.loadWord, 0, source + 4 * word],
    [instruction.copyToX, 0, 0],
    [instruction.loadWord, 0, destination + 4 * word],
    // If not equal: to the last statement.
    [instruction.jumpIfEqualX, (words - 1 - word) * 4 + 1, 0],
  ]).flat()
  statements.push([instruction.return, 0, 0xffffffff], [instruction.return, 0, 0])
  const program = new Uint8Array(512)
  const view = new DataView(program.buffer)
  for (const [i, [code = 0, ifFalse = 0, value = 0]] of statements.entries()) {
    view.setUint16(i * instructionSize, code, true)
    view.setUint8(i * instructionSize + 3, ifFalse)
    view.setUint32(i * instructionSize + 4, value, true)
  }
  return { length: statements.length, program }
}

function verdict(code: NfVerdict['code'], chain?: string): NfExpression {
  return {
    kind: 'immediate',
    to: 'verdict',
    data: { verdict: { code, ...(chain === undefined ? {} : { chain }) } },
  }
}

function call<V>(layout: InfoLayout<V>, values: Partial<V>): NfExpression {
  return { kind: 'target', name: layout.name, revision: layout.revision, info: layout.encode(values) }
}

function targetOf(target: XtTarget, { family, indexOf }: EncodeContext): NfExpression {
  switch (target.kind) {
    case 'jump':
    case 'goto':
      return verdict(target.kind, target.chain)
    case 'accept':
    case 'drop':
    case 'return':
      return verdict(target.kind)
    case 'mark':
      return call(targets.MARK, { value: target.value, mask: target.mask })
    case 'dnat': {
      const address = new Uint8Array(16)
      writeAddress(target.address, address, 0)
      const { port } = target
      return call(targets.DNAT, { address, lastAddress: address, port, lastPort: port })
    }
    case 'masquerade':
      return call(targets[`MASQUERADE ${family}`], { flags: target.isRandomFully ? randomFully : 0 })
    case 'map-mark':
      return call(targets.SET, setOf(target.set, indexOf))
    case 'reject':
      return call(targets.REJECT, { kind: portUnreachable[family] })
  }
}
