// Decodes rules as iptables-nft 1.8.4 to 1.8.11 write them: the later versions write ports, marks and short prefixes as expressions of
// nf_tables, the others as matches of x_tables.
import { readAddress, type IpFamily } from '../../../address.js'
import type { Protocol } from '../../ipvs/ipvs.js'
import { protocolNumber } from '../../ipvs/encode.js'
import type { NfVerdict } from '../../nftables/data.js'
import type { NfExpression, NfExpressionOf } from '../../nftables/expressions.js'
import type { NfRule } from '../../nftables/nftables.js'
import { hasLateComment, type XtRule, type XtTarget } from '../xtables.js'
import { addressOffsets, prefixMask } from './encode.js'
import { decodeMatch, decodeTarget, type DecodeContext, type XtRuleParts } from './decode-info.js'

/** Parts of a rule that are no matches of x_tables. */
const besideMatches: ReadonlySet<string> = new Set<keyof XtRule>([
  'protocol',
  'inInterface',
  'outInterface',
  'source',
  'destination',
  'target',
])

/** A field of the packet in a register. */
interface Loaded {
  readonly field: NfExpressionOf<'payload'> | NfExpressionOf<'meta'>
  readonly mask?: Uint8Array
}

/**
 * The rule; undefined: it is not one that Viaduct writes, in any encoding. Of the order of the matches only the place of the comment
 * counts (`hasLateComment`): `iptables -C` would not find a rule with its comment in another place. `comment`: the rule's own, beside its
 * expressions, which iptables-nft reads as the last match.
 */
export function decodeXtRule(
  { expressions, comment }: Pick<NfRule, 'expressions' | 'comment'>,
  context: DecodeContext,
): XtRule | undefined {
  const reader = new RuleReader(context)
  return expressions.every((expression) => reader.read(expression)) ? reader.finish(comment) : undefined
}

/** The matches among the expressions that are known. `isWhole`: all of them are. */
export function decodeXtRuleParts(
  expressions: readonly NfExpression[],
  context: DecodeContext,
): { readonly parts: Omit<XtRule, 'target'>; readonly isWhole: boolean } {
  const reader = new RuleReader(context)
  const read = expressions.map((expression) => reader.read(expression))
  return { parts: reader.parts, isWhole: !read.includes(false) }
}

/** The chain to which a rule jumps, in any rule. */
export function chainOf(expressions: readonly NfExpression[]): string | undefined {
  for (const expression of expressions)
    if (
      expression.kind === 'immediate' &&
      'verdict' in expression.data &&
      expression.data.verdict.chain !== undefined
    )
      return expression.data.verdict.chain
  return undefined
}

class RuleReader {
  readonly #context: DecodeContext
  readonly #registers = new Map<unknown, Loaded>()
  #parts: Partial<XtRule> = {}

  constructor(context: DecodeContext) {
    this.#context = context
  }

  /** The parts that are read so far. */
  get parts(): Partial<XtRule> {
    return this.#parts
  }

  finish(comment?: string): XtRule | undefined {
    if (comment !== undefined && !this.#add({ comment })) return undefined
    const { target, ...parts } = this.#parts
    const hasPorts = parts.sourcePorts !== undefined || parts.destinationPorts !== undefined
    if (target === undefined || (hasPorts && parts.protocol === undefined)) return undefined
    return this.#hasCommentInPlace(target) ? { ...parts, target } : undefined
  }

  #hasCommentInPlace(target: XtTarget): boolean {
    const names = Object.keys(this.#parts).filter((name) => !besideMatches.has(name))
    return !names.includes('comment') || names.at(hasLateComment(target) ? -1 : 0) === 'comment'
  }

  /** False: not an expression of a rule that Viaduct writes. */
  read(expression: NfExpression): boolean {
    switch (expression.kind) {
      case 'payload':
      case 'meta':
        if (expression.to === undefined) return false
        this.#registers.set(expression.to, { field: expression })
        return true
      case 'bitwise':
        return this.#mask(expression)
      case 'cmp': {
        const { op, value } = expression
        if (op !== '==' && op !== '!=') return false
        const loaded = this.#registers.get(expression.from)
        const { family } = this.#context
        return (
          loaded !== undefined && this.#add(condition(loaded, { value, isInverted: op === '!=' }, family))
        )
      }
      case 'range':
        return this.#add(this.#ports(expression))
      case 'counter':
        return true
      case 'match':
        return this.#add(decodeMatch(expression, this.#context))
      case 'target':
        return this.#add(withTarget(decodeTarget(expression, this.#context)))
      case 'immediate':
        return this.#add(
          'verdict' in expression.data ? withTarget(ofVerdict(expression.data.verdict)) : undefined,
        )
      default:
        return false
    }
  }

  #mask({ from, to, mask, xor, op }: NfExpressionOf<'bitwise'>): boolean {
    const loaded = this.#registers.get(from)
    const isMask = op === undefined && mask !== undefined && (xor ?? []).every((byte) => byte === 0)
    if (loaded === undefined || loaded.mask !== undefined || !isMask) return false
    this.#registers.set(to, { ...loaded, mask })
    return true
  }

  #ports({ from, op, min, max }: NfExpressionOf<'range'>): XtRuleParts {
    const field = this.#registers.get(from)?.field
    if (op !== '==' || field?.kind !== 'payload' || field.base !== 'transport' || field.length !== 2)
      return undefined
    return portCondition(field.offset, [portAt(min, 0), portAt(max, 0)])
  }

  /** Adds the parts of a rule. False: one is present twice. */
  #add(parts: XtRuleParts): boolean {
    if (parts === undefined || Object.keys(parts).some((name) => name in this.#parts)) return false
    this.#parts = { ...this.#parts, ...parts }
    return true
  }
}

function withTarget(target: XtTarget | undefined): XtRuleParts {
  return target === undefined ? undefined : { target }
}

function ofVerdict({ code, chain }: NfVerdict): XtTarget | undefined {
  if (code === 'jump' || code === 'goto') return chain === undefined ? undefined : { kind: code, chain }
  return code === 'accept' || code === 'drop' || code === 'return' ? { kind: code } : undefined
}

const inverted = { isInverted: true } as const
type Sense = { readonly isInverted?: true }

interface Comparison {
  readonly value: Uint8Array
  readonly isInverted: boolean
}

/** The offset of the protocol in the IPv4 header. */
const protocolOffset = 9

/** The part of a rule that compares a field. undefined: Viaduct writes no such comparison. */
function condition({ field, mask }: Loaded, cmp: Comparison, family: IpFamily): XtRuleParts {
  const { value, isInverted } = cmp
  const sense = isInverted ? inverted : {}
  if (field.kind === 'meta' && field.key === 'mark') return markCondition(value, mask, sense)
  const isNetwork = field.kind === 'payload' && field.base === 'network'
  const isProtocol = isNetwork && family === 'ipv4' && field.offset === protocolOffset
  if (isNetwork && !isProtocol) return networkCondition(field, { value, mask, sense }, family)
  if (mask !== undefined) return undefined
  if (field.kind === 'meta' && field.key === 'iifname')
    return { inInterface: { name: nameOf(value), ...sense } }
  if (field.kind === 'meta' && field.key === 'oifname')
    return { outInterface: { name: nameOf(value), ...sense } }
  if (isInverted) return undefined
  if (isProtocol || (field.kind === 'meta' && field.key === 'l4proto')) return protocolCondition(value)
  return field.kind === 'payload' && field.base === 'transport' ? samePortCondition(field, value) : undefined
}

function protocolCondition(value: Uint8Array): XtRuleParts {
  const names: readonly Protocol[] = ['tcp', 'udp', 'sctp']
  const protocol = names.find((name) => value.length === 1 && protocolNumber[name] === value[0])
  return protocol === undefined ? undefined : { protocol }
}

function nameOf(value: Uint8Array): string {
  const text = Buffer.from(value).toString()
  const end = text.indexOf('\0')
  return end < 0 ? `${text}+` : text.slice(0, end)
}

function numberOf(value: Uint8Array): number | undefined {
  return value.length === 4 ? Buffer.from(value).readUInt32LE() : undefined
}

function markCondition(value: Uint8Array, mask: Uint8Array | undefined, sense: Sense): XtRuleParts {
  const mark = numberOf(value)
  const bits = mask === undefined ? 0xffffffff : numberOf(mask)
  return mark === undefined || bits === undefined
    ? undefined
    : { mark: { value: mark, mask: bits, ...sense } }
}

/** A prefix of whole bytes may be compared without a mask and without the bytes after it. */
function networkCondition(
  { offset, length }: NfExpressionOf<'payload'>,
  {
    value,
    mask,
    sense,
  }: { readonly value: Uint8Array; readonly mask: Uint8Array | undefined; readonly sense: Sense },
  family: IpFamily,
): XtRuleParts {
  const offsets = addressOffsets[family]
  const side = (['source', 'destination'] as const).find((name) => offsets[name] === offset)
  if (side === undefined || length > offsets.length || value.length !== length) return undefined
  const bits = mask ?? prefixMask(8 * length, length)
  const prefixLength = bits.reduce((sum, byte) => sum + byte.toString(2).replaceAll('0', '').length, 0)
  const isPrefix = Buffer.from(prefixMask(prefixLength, length)).equals(bits)
  if (!isPrefix || value.some((byte, i) => (byte & ~(bits[i] ?? 0)) !== 0)) return undefined
  const whole = new Uint8Array(offsets.length)
  whole.set(value)
  return { [side]: { address: readAddress(whole, 0, family), prefixLength, ...sense } }
}

function portAt(value: Uint8Array, at: number): number {
  return (value[at] ?? 0) * 256 + (value[at + 1] ?? 0)
}

const sourcePortOffset = 0
const destinationPortOffset = 2

function portCondition(offset: number, ports: readonly [number, number]): XtRuleParts {
  if (offset === sourcePortOffset) return { sourcePorts: ports }
  return offset === destinationPortOffset ? { destinationPorts: ports } : undefined
}

/** One port, or both ports in one comparison. */
function samePortCondition({ offset, length }: NfExpressionOf<'payload'>, value: Uint8Array): XtRuleParts {
  const first = portAt(value, 0)
  if (length === 2) return portCondition(offset, [first, first])
  const second = portAt(value, 2)
  return offset === sourcePortOffset && length === 4
    ? { sourcePorts: [first, first], destinationPorts: [second, second] }
    : undefined
}
