// The chain that marks packets of a client that reaches itself: source and destination of the translated packet are equal.
import { anonymousSet, hostPrefixLength, NfElements, type NfExpression } from '../../../kernel/index.js'
import type { ChainPlan, RulePlan } from './chain-plan.js'
import { type Expressions, packetFields, returns, setMark } from './expressions.js'
import { schemaOf } from './schema.js'
import type { NftModeSettings } from './settings.js'

/** Only with the semantics of iptables mode. */
export const hairpinMarking = 'hairpin-marking'

/** A rule for each hexadecimal digit of an address; nearly every other packet leaves by the first one. */
export function hairpinChain({ family, masqueradeMark }: NftModeSettings): ChainPlan {
  const digits = hostPrefixLength(family) / 4
  const differences = Array.from({ length: digits }, (_, index): RulePlan => ({
    expressions: [...differsInDigit(family, digits - 1 - index), ...returns],
  }))
  return { chain: hairpinMarking, rules: [...differences, { expressions: setMark(masqueradeMark) }] }
}

/**
 * Matches when source and destination differ in this digit, counted from the first one. nf_tables compares two fields of a packet only
 * since Linux 6.13 (NFTA_BITWISE_SREG2); a lookup of both together compares them on all kernels.
 */
function differsInDigit(family: NftModeSettings['family'], digit: number): Expressions {
  const length = hostPrefixLength(family) / 8
  const withDigit = (value: number): Uint8Array => {
    const bytes = new Uint8Array(length)
    bytes[digit >> 1] = digit % 2 === 0 ? value << 4 : value
    return bytes
  }
  const address = family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'
  const elements = new NfElements(anonymousSet(schemaOf(family).table, { key: [address, address] }))
  for (let value = 0; value < 16; value++) elements.add(Buffer.concat([withDigit(value), withDigit(value)]))
  const { source, destination } = packetFields[family]
  const masked = (register: number): NfExpression => ({
    kind: 'bitwise',
    from: register,
    to: register,
    length,
    mask: withDigit(15),
    xor: new Uint8Array(length),
  })
  return [
    ...source.load(0),
    masked(0),
    ...destination.load(source.words),
    masked(source.words),
    { kind: 'lookup', set: elements.set.set, from: 0, flags: isAbsent, elements },
  ]
}

/** NFT_LOOKUP_F_INV. */
const isAbsent = 1
