// All chains of a table of x_tables, with their rules in the notation of iptables-save.
import { createHash } from 'node:crypto'
import { readAddress } from '../../address.js'
import type { RawXtListing } from '../addon.js'
import { protocolOf } from '../ipvs/encode.js'
import {
  connectionEffect,
  type FirewallRule,
  type FirewallVerdict,
  verdictOfTarget,
} from '../firewall/firewall.js'
import { markChangeOfXtRule } from '../firewall/mark-change.js'
import type { Nftables } from '../nftables/nftables.js'
import { describeOtherXtRule, describeXtRule } from './describe.js'
import type { XtPlace } from './encode.js'
import { chainOf, decodeXtRule } from './nft/decode.js'
import { decodeMatch, decodeTarget, type DecodeContext } from './nft/decode-info.js'
import { hasLateComment, type XtInterface, type XtNetwork, type XtRule, type XtTarget } from './xtables.js'

export interface XtListedChain {
  readonly chain: string
  /** Only a built-in chain has one. */
  readonly policy?: 'ACCEPT' | 'DROP'
  /**
   * `-p tcp -m tcp --dport 80 -j KUBE-SVC-X`. A rule that Viaduct does not write may have another text, which begins with `(` and ends with
   * the chain to which the rule jumps. Equal rules have equal texts.
   */
  readonly rules: readonly string[]
}

/** Built-in chains first. */
export type XtListing = readonly XtListedChain[]

/** Decodes the listing of the addon. */
export function decodeListing(raw: RawXtListing, context: DecodeContext): XtListing {
  const reader = new EntryReader(raw, context)
  return raw.chains.map(({ name, isBuiltIn, drops, rules, last }) => {
    let texts: readonly string[] | undefined
    return {
      chain: name,
      ...(isBuiltIn ? { policy: drops ? 'DROP' : 'ACCEPT' } : {}),
      // Decoded when it is read: a table of 10,000 Services has 200,000 rules.
      get rules() {
        return (texts ??= reader.rules(rules, last))
      },
    }
  })
}

/** The rules of the chains of the listing, of any program, by the names of the chains. Decoded when they are read. */
export function decodeFirewallRules(
  raw: RawXtListing,
  context: DecodeContext,
): ReadonlyMap<string, () => readonly FirewallRule[]> {
  const reader = new EntryReader(raw, context)
  return new Map(raw.chains.map(({ name, rules, last }) => [name, () => reader.firewallRules(rules, last)]))
}

/** Lists a table of nf_tables that iptables-nft writes; empty: there is none. Throws KernelError. */
export async function listNftTable(
  nftables: Nftables,
  place: XtPlace,
  setOf: DecodeContext['setOf'],
): Promise<XtListing> {
  const { family } = place
  const listing: XtListedChain[] = []
  for (const { chain, hook } of await nftables.chains(place)) {
    const rules = await nftables.rules({ ...place, chain })
    const policy = hook && (hook.policy === 'drop' ? 'DROP' : 'ACCEPT')
    listing.push({
      chain,
      ...(policy === undefined ? {} : { policy }),
      rules: rules.map((found) => {
        const { expressions, comment } = found
        const rule = decodeXtRule(found, { family, setOf })
        if (rule !== undefined) return describeXtRule(rule, family)
        const kinds = expressions.map((each) => ('name' in each ? `${each.kind} ${each.name}` : each.kind))
        const bytes = JSON.stringify([comment, expressions.map(withoutCounts)], (_, value: unknown) =>
          value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
        )
        return otherRule(kinds, bytes, chainOf(expressions))
      }),
    })
  }
  return listing
}

function withoutCounts(expression: { readonly kind: string }): object {
  return expression.kind === 'counter' ? { kind: 'counter' } : expression
}

/** A rule in a form that Viaduct does not write. `chain`: it jumps there. */
function otherRule(parts: readonly string[], content: string | Uint8Array, chain?: string): string {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 8)
  return `(a rule of another form: ${parts.join(', ')}; ${hash})${chain === undefined ? '' : ` -j ${chain}`}`
}

/** The chain to which a listed rule jumps. */
export function jumpOf(rule: string): string | undefined {
  return / -[jg] (?<chain>\S+)$/u.exec(` ${rule}`)?.groups?.['chain']
}

/** Offsets in ipt_entry and ip6t_entry (linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h). */
const layouts = {
  ipv4: {
    address: 4,
    source: 0,
    destination: 4,
    sourceMask: 8,
    destinationMask: 12,
    inName: 16,
    outName: 32,
    inMask: 48,
    outMask: 64,
    protocol: 80,
    /** IPT_F_GOTO. */
    gotoFlag: 0x02,
    flags: 82,
    inverts: 83,
    targetOffset: 88,
    size: 112,
  },
  ipv6: {
    address: 16,
    source: 0,
    destination: 16,
    sourceMask: 32,
    destinationMask: 48,
    inName: 64,
    outName: 80,
    inMask: 96,
    outMask: 112,
    protocol: 128,
    /** IP6T_F_GOTO. */
    gotoFlag: 0x04,
    flags: 131,
    inverts: 132,
    targetOffset: 140,
    size: 168,
  },
} as const

/** IPT_INV_*. */
const inverts = { inInterface: 0x01, outInterface: 0x02, source: 0x08, destination: 0x10, protocol: 0x40 }
/** IP6T_F_PROTO says that the rule has a protocol; the tools and Viaduct write it. IPT_F_FRAG is another match. */
const knownFlags = { ipv4: 0x02, ipv6: 0x05 } as const
/** Of xt_entry_match and xt_entry_target: u16 size, name of 29 bytes, u8 revision, data. */
const extension = { name: 2, nameLength: 29, revision: 31, data: 32 } as const
/** XT_RETURN, -NF_ACCEPT - 1, -NF_DROP - 1. */
const verdicts: ReadonlyMap<number, XtTarget> = new Map([
  [-5, { kind: 'return' }],
  [-2, { kind: 'accept' }],
  [-1, { kind: 'drop' }],
])

/** A match or target. A target without a name is a verdict. */
interface Extension {
  readonly name: string
  readonly revision: number
  readonly info: Uint8Array
}

/** The verdict of a target without a name: negative, or the offset of a rule. */
function verdictAt(info: Uint8Array): number {
  return new DataView(info.buffer, info.byteOffset, 4).getInt32(0, true)
}

class EntryReader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  readonly #context: DecodeContext
  /** Names of user chains, by the offset of their first rule. */
  readonly #chains: ReadonlyMap<number, string>

  constructor({ bytes, chains }: RawXtListing, context: DecodeContext) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#context = context
    this.#chains = new Map(
      chains.filter(({ isBuiltIn }) => !isBuiltIn).map(({ rules, name }) => [rules, name]),
    )
  }

  rules(first: number, last: number): readonly string[] {
    return this.#places(first, last).map((at) => this.#text(at))
  }

  firewallRules(first: number, last: number): readonly FirewallRule[] {
    return this.#places(first, last).map((at) => this.#firewallRule(at))
  }

  #places(first: number, last: number): readonly number[] {
    const places: number[] = []
    const { targetOffset } = layouts[this.#context.family]
    for (let at = first; at < last; at += this.#u16(at + targetOffset + 2)) places.push(at)
    return places
  }

  #firewallRule(at: number): FirewallRule {
    const layout = layouts[this.#context.family]
    const number = this.#u16(at + layout.protocol)
    const isInverted = ((this.#bytes[at + layout.inverts] ?? 0) & inverts.protocol) !== 0
    const header = this.#header(at, { anyProtocol: true })
    let matches: Omit<XtRule, 'target'> = { ...header }
    let isWhole = header !== undefined
    const found = this.#matches(at).map((match) => ({ kind: 'match', ...match }) as const)
    for (const match of found) {
      const parts = decodeMatch(match, this.#context)
      const isRepeated = parts !== undefined && Object.keys(parts).some((name) => name in matches)
      isWhole &&= parts !== undefined && !isRepeated
      matches = { ...parts, ...matches }
    }
    const target = this.#target(at)
    const mark = markChangeOfXtRule([...found, { kind: 'target', ...target }])
    const { family } = this.#context
    const text = (): string => {
      const named = this.#header(at)
      return isWhole && named !== undefined && target.name !== '' && this.#rule(at) === undefined
        ? describeOtherXtRule({ ...matches, ...named }, target.name, family)
        : this.#text(at)
    }
    return {
      get text() {
        return text()
      },
      matches,
      ...(number === 0 ? {} : { protocol: { number, isInverted } }),
      isWhole,
      verdict: this.#verdict(at),
      ...(mark === undefined ? {} : { mark }),
      ...connectionEffect(target),
    }
  }

  #verdict(at: number): FirewallVerdict {
    const target = this.#decodeTarget(at)
    const { targetOffset } = layouts[this.#context.family]
    switch (target?.kind) {
      case 'accept':
      case 'drop':
      case 'reject':
      case 'return':
        return target.kind
      case 'jump':
      case 'goto':
        return { chain: target.chain, isGoto: target.kind === 'goto' }
      default: {
        const { name, info } = this.#target(at)
        if (name !== '') return verdictOfTarget(name)
        // A rule without a target jumps to the rule behind it.
        return verdictAt(info) === at + this.#u16(at + targetOffset + 2) ? 'continue' : 'unknown'
      }
    }
  }

  #text(at: number): string {
    const rule = this.#rule(at)
    if (rule !== undefined) return describeXtRule(rule, this.#context.family)
    const { targetOffset, size } = layouts[this.#context.family]
    const end = at + this.#u16(at + targetOffset + 2)
    const parts = [...this.#matches(at), this.#target(at)].map(({ name }) => name || 'verdict')
    const content = Buffer.concat([
      this.#bytes.subarray(at, at + targetOffset),
      this.#bytes.subarray(at + size, end),
    ])
    const target = this.#decodeTarget(at)
    return otherRule(parts, content, target !== undefined && 'chain' in target ? target.chain : undefined)
  }

  /** undefined: not a rule that Viaduct writes. */
  #rule(at: number): XtRule | undefined {
    const header = this.#header(at)
    const target = this.#decodeTarget(at)
    if (header === undefined || target === undefined) return undefined
    const matches = this.#matches(at)
    let rule: XtRule = { ...header, target }
    for (const match of matches) {
      const parts = decodeMatch({ kind: 'match', ...match }, this.#context)
      if (parts === undefined) return undefined
      rule = { ...rule, ...parts }
    }
    const comment = matches.findIndex(({ name }) => name === 'comment')
    const place = hasLateComment(target) ? matches.length - 1 : 0
    return comment < 0 || comment === place ? rule : undefined
  }

  /** `anyProtocol`: any protocol is left out. */
  #header(at: number, { anyProtocol = false } = {}): Omit<XtRule, 'target'> | undefined {
    const { family } = this.#context
    const layout = layouts[family]
    const flags = this.#bytes[at + layout.flags] ?? 0
    const inverted = this.#bytes[at + layout.inverts] ?? 0
    const isOther = (flags & ~knownFlags[family]) !== 0 || (inverted & ~(anyProtocol ? 0x5b : 0x1b)) !== 0
    const source = this.#network(at, layout.source, layout.sourceMask, (inverted & inverts.source) !== 0)
    const destination = this.#network(
      at,
      layout.destination,
      layout.destinationMask,
      (inverted & inverts.destination) !== 0,
    )
    if (isOther || source === 'other' || destination === 'other') return undefined
    const inInterface = this.#interface(at + layout.inName, at + layout.inMask)
    const outInterface = this.#interface(at + layout.outName, at + layout.outMask)
    const number = this.#u16(at + layout.protocol)
    if (!anyProtocol && number !== 0 && ![6, 17, 132].includes(number)) return undefined
    const sense = (bit: number): { readonly isInverted?: true } =>
      (inverted & bit) === 0 ? {} : { isInverted: true }
    return {
      ...(source === undefined ? {} : { source }),
      ...(destination === undefined ? {} : { destination }),
      ...(inInterface === undefined
        ? {}
        : { inInterface: { ...inInterface, ...sense(inverts.inInterface) } }),
      ...(outInterface === undefined
        ? {}
        : { outInterface: { ...outInterface, ...sense(inverts.outInterface) } }),
      ...(number === 0 || anyProtocol ? {} : { protocol: protocolOf(number) }),
    }
  }

  /** undefined: any address; other: the mask is no prefix. */
  #network(at: number, address: number, mask: number, isInverted: boolean): XtNetwork | 'other' | undefined {
    const { family } = this.#context
    const { address: length } = layouts[family]
    const bits = [...this.#bytes.subarray(at + mask, at + mask + length)]
      .map((byte) => byte.toString(2).padStart(8, '0'))
      .join('')
    const prefixLength = bits.replaceAll('0', '').length
    if (bits.slice(0, prefixLength).includes('0')) return 'other'
    if (prefixLength === 0 && !isInverted) return undefined
    const network = { address: readAddress(this.#bytes, at + address, family), prefixLength }
    return isInverted ? { ...network, isInverted } : network
  }

  /** The mask covers the NUL of a whole name. */
  #interface(name: number, mask: number): XtInterface | undefined {
    const text = this.#textAt(name, 16)
    if (text === '') return undefined
    const isWhole = (this.#bytes[mask + text.length] ?? 0) !== 0
    // The tools leave the + in the name, beyond the mask.
    return { name: isWhole || text.endsWith('+') ? text : `${text}+` }
  }

  #matches(at: number): readonly Extension[] {
    const { targetOffset, size } = layouts[this.#context.family]
    const end = at + this.#u16(at + targetOffset)
    const found: Extension[] = []
    for (let match = at + size; match < end; match += this.#u16(match)) found.push(this.#extension(match))
    return found
  }

  #target(at: number): Extension {
    const { targetOffset } = layouts[this.#context.family]
    return this.#extension(at + this.#u16(at + targetOffset))
  }

  #decodeTarget(at: number): XtTarget | undefined {
    const { name, revision, info } = this.#target(at)
    if (name !== '') return decodeTarget({ kind: 'target', name, revision, info }, this.#context)
    const verdict = verdictAt(info)
    if (verdict < 0) return verdicts.get(verdict)
    const chain = this.#chains.get(verdict)
    const { flags, gotoFlag } = layouts[this.#context.family]
    const isGoto = ((this.#bytes[at + flags] ?? 0) & gotoFlag) !== 0
    return chain === undefined ? undefined : { kind: isGoto ? 'goto' : 'jump', chain }
  }

  #extension(at: number): Extension {
    return {
      name: this.#textAt(at + extension.name, extension.nameLength),
      revision: this.#bytes[at + extension.revision] ?? 0,
      info: this.#bytes.subarray(at + extension.data, at + this.#u16(at)),
    }
  }

  #textAt(at: number, length: number): string {
    const field = this.#bytes.subarray(at, at + length)
    const end = field.indexOf(0)
    return Buffer.from(end < 0 ? field : field.subarray(0, end)).toString('latin1')
  }

  #u16(at: number): number {
    return this.#view.getUint16(at, true)
  }
}
