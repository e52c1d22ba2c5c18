// Rules of nf_tables, of any program, for readers that follow a packet.
import type { IpFamily } from '../../address.js'
import type { NfExpression } from '../nftables/expressions.js'
import { printExpressions } from '../nftables/print-rule.js'
import { describeXtRule } from '../xtables/describe.js'
import { decodeXtRule, decodeXtRuleParts } from '../xtables/nft/decode.js'
import { XtState } from '../xtables/xtables.js'
import { connectionEffect, type FirewallRule, type FirewallVerdict, verdictOfTarget } from './firewall.js'
import { markChangeOfRule, withoutMarkSetting } from './mark-change.js'

/** Expressions that neither match nor end the way of a packet. */
const silent: ReadonlySet<string> = new Set(['counter', 'objref', 'log', 'notrack'])
/** IPS_DST_NAT (linux/netfilter/nf_conntrack_common.h). */
const destinationTranslated = 0x20

export function readNftRule(expressions: readonly NfExpression[], family: IpFamily): FirewallRule {
  const others = withoutMarkSetting(expressions).filter(
    (each) => !isSilent(each) && verdictOf(each) === undefined,
  )
  const { rest, state, protocol, isOtherFamily } = takeConditions(others, family)
  const { parts, isWhole } = decodeXtRuleParts(rest, { family, setOf: () => undefined })
  const mark = markChangeOfRule(expressions)
  return {
    get text() {
      const decoded = decodeXtRule({ expressions }, { family, setOf: () => undefined })
      return decoded === undefined ? printExpressions(family, expressions) : describeXtRule(decoded, family)
    },
    matches: { ...parts, ...(state === undefined ? {} : { state }) },
    ...(protocol === undefined ? {} : { protocol }),
    isWhole,
    verdict: isOtherFamily ? 'continue' : (firstVerdict(expressions) ?? verdictWithout(others)),
    ...(mark === undefined || isOtherFamily ? {} : { mark }),
    ...(isOtherFamily ? {} : effectOf(expressions)),
  }
}

function effectOf(expressions: readonly NfExpression[]): ReturnType<typeof connectionEffect> {
  for (const each of expressions) {
    if (each.kind === 'target') return connectionEffect(each)
    if (each.kind === 'nat' && each.type === 'dnat') return { isTranslating: true }
    if (each.kind === 'ct' && each.key === 'zone' && each.from !== undefined) return { tracking: 'template' }
    if (each.kind !== 'other') continue
    if (each.name === 'redir') return { isTranslating: true }
    if (each.name === 'notrack') return { tracking: 'none' }
  }
  return {}
}

function firstVerdict(expressions: readonly NfExpression[]): FirewallVerdict | undefined {
  return expressions.map(verdictOf).find((verdict) => verdict !== undefined)
}

function isSilent(expression: NfExpression): boolean {
  if (expression.kind === 'other') return silent.has(expression.name)
  // A value that is set, such as a mark.
  if (expression.kind === 'meta' || expression.kind === 'ct') return expression.to === undefined
  if (expression.kind === 'immediate') return !('verdict' in expression.data)
  return silent.has(expression.kind)
}

function verdictOf(expression: NfExpression): FirewallVerdict | undefined {
  switch (expression.kind) {
    case 'immediate': {
      if (!('verdict' in expression.data)) return undefined
      const { code, chain } = expression.data.verdict
      if (code === 'jump' || code === 'goto')
        return chain === undefined ? 'unknown' : { chain, isGoto: code === 'goto' }
      return code === 'accept' || code === 'drop' || code === 'return' ? code : 'continue'
    }
    case 'reject':
      return 'reject'
    case 'masq':
    case 'nat':
      return 'accept'
    case 'other':
      return expression.name === 'redir' ? 'accept' : undefined
    case 'target':
      return verdictOfTarget(expression.name)
    default:
      return undefined
  }
}

/** Expressions without a verdict of their own that end the way of a packet. */
const deciding: ReadonlySet<string> = new Set(['queue', 'synproxy', 'tproxy', 'fwd'])

/** The verdict of a rule without an expression that has one. A map of verdicts and the expressions of `deciding` may end the way. */
function verdictWithout(expressions: readonly NfExpression[]): FirewallVerdict {
  const mayDecide = expressions.some(
    (each) =>
      (each.kind === 'other' && deciding.has(each.name)) || (each.kind === 'lookup' && each.to !== undefined),
  )
  return mayDecide ? 'unknown' : 'continue'
}

interface Conditions {
  readonly rest: readonly NfExpression[]
  readonly state: FirewallRule['matches']['state']
  readonly protocol: FirewallRule['protocol']
  /** The rule is for packets of the other family. */
  readonly isOtherFamily: boolean
}

/** `tcp dport 30000-32767`: nft compares a value twice, iptables once with a range. */
function rangeOf(first: NfExpression, second: NfExpression | undefined): NfExpression | undefined {
  if (first.kind !== 'cmp' || first.op !== '>=' || second?.kind !== 'cmp' || second.op !== '<=')
    return undefined
  if (first.from !== second.from) return undefined
  return { kind: 'range', from: first.from, op: '==', min: first.value, max: second.value }
}

/** Takes out `ct state`, `ct status dnat`, a protocol and a family, which iptables writes in other forms, if at all. */
function takeConditions(expressions: readonly NfExpression[], family: IpFamily): Conditions {
  const rest: NfExpression[] = []
  let state: Conditions['state']
  let protocol: Conditions['protocol']
  let isOtherFamily = false
  for (let at = 0; at < expressions.length; at++) {
    const [first, second, third] = expressions.slice(at, at + 3)
    if (first === undefined) break
    const range = rangeOf(first, second)
    const bits = state === undefined ? trackedBits(first, second, third) : undefined
    const number = protocol === undefined ? comparedByte('l4proto', first, second) : undefined
    const asked = comparedByte('nfproto', first, second)
    if (asked !== undefined) {
      isOtherFamily ||= (asked.number === familyNumbers[family]) === asked.isInverted
      at += 1
    } else if (bits !== undefined) {
      state = bits
      at += 2
    } else if (number !== undefined) {
      protocol = number
      at += 1
    } else if (range !== undefined) {
      rest.push(range)
      at += 1
    } else {
      rest.push(first)
    }
  }
  return { rest, state, protocol, isOtherFamily }
}

/** `ct state new`, `ct status dnat`: the load of the bits, their mask, and the comparison with 0. */
function trackedBits(
  load: NfExpression,
  mask: NfExpression | undefined,
  comparison: NfExpression | undefined,
): Conditions['state'] {
  if (load.kind !== 'ct' || mask?.kind !== 'bitwise' || comparison?.kind !== 'cmp') return undefined
  const bits = mask.mask?.length === 4 ? Buffer.from(mask.mask).readUInt32LE() : undefined
  const isZero = comparison.value.every((byte) => byte === 0)
  if (bits === undefined || !isZero || (comparison.op !== '!=' && comparison.op !== '==')) return undefined
  const sense = comparison.op === '==' ? ({ isInverted: true } as const) : {}
  if (load.key === 'state') return { bits: xtStateBits(bits), ...sense }
  return load.key === 'status' && bits === destinationTranslated
    ? { bits: XtState.dnat, ...sense }
    : undefined
}

/** NF_CT_STATE_UNTRACKED_BIT has another value than the bit of the conntrack match; the others have the same. */
const nftUntracked = 0x40

function xtStateBits(bits: number): number {
  return (bits & nftUntracked) === 0 ? bits : (bits & ~nftUntracked) | XtState.untracked
}

/** NFPROTO_IPV4 and NFPROTO_IPV6 (linux/netfilter.h). */
const familyNumbers = { ipv4: 2, ipv6: 10 } as const

/** `meta l4proto != tcp`, `meta nfproto ipv4`. */
function comparedByte(
  key: 'l4proto' | 'nfproto',
  load: NfExpression,
  comparison: NfExpression | undefined,
): Conditions['protocol'] {
  if (load.kind !== 'meta' || load.key !== key || comparison?.kind !== 'cmp') return undefined
  const { op, value } = comparison
  const [number] = value
  if (number === undefined || (op !== '==' && op !== '!=')) return undefined
  return { number, isInverted: op === '!=' }
}
