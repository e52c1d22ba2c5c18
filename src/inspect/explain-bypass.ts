// The decision about a packet, with the rules of other programs that take it away before the rules of Services: untracked, accepted, or
// with another destination.
import { isLoopback } from '../node/index.js'
import type { NatPlace } from '../engine/index.js'
import { conntrackPriority, type FirewallEntrance, type FirewallRule } from '../kernel/index.js'
import type { Packet, PacketView } from './explain-client.js'
import { isRelayed } from './explain-frontend.js'
import { bypassedPacket, onwardOf, type PacketDecision, type PacketEndpoint } from './explain-packet.js'
import { addressOf, arrivalOf, type Outcome } from './explain-passage.js'
import {
  type ChainReader,
  type BaseChain,
  type FirewallChains,
  type MetRule,
  type Passage,
  type RuleFollower,
  Walk,
} from './firewall.js'

interface Bypassed {
  /** The first one is the packet's, the others are possible too. */
  readonly outcomes: readonly [Outcome, ...(readonly Outcome[])]
  /** `may-bypass`: it depends on rules that cannot be evaluated. */
  readonly state: 'none' | 'bypasses' | 'may-bypass'
  /** A sentence per rule. */
  readonly rules: readonly string[]
  /** Those of `rules` that are no steps of the first outcome. */
  readonly added: readonly string[]
}

/** Looks for rules that take the packet away at the hooks prerouting and output. Throws KernelError. */
export async function withBypass(
  packet: Packet,
  view: PacketView,
  decision: PacketDecision,
  { read }: ChainReader,
): Promise<Bypassed> {
  const isMartian = isLoopback(packet.destination) && !decision.client.isNode
  const found = isMartian
    ? []
    : await bypassesAt(arrivalOf(packet, view, decision), await read(), concernOf(packet, view, decision))
  const effects = found.flatMap((bypass): readonly Effect[] => {
    const effect = effectOf(bypass, packet, view, decision)
    return effect === undefined ? [] : [effect]
  })
  const sure = effects.find(({ bypass }) => bypass.isSure)
  const outcomes = effects.map(({ outcome }) => outcome)
  const others = sure === undefined ? outcomes : outcomes.filter((each) => each !== sure.outcome)
  const spoken = effects.filter(({ text }) => text !== undefined)
  return {
    outcomes: [sure?.outcome ?? { decision }, ...others],
    state:
      spoken.length === 0 ? 'none' : spoken.some(({ bypass }) => bypass.isSure) ? 'bypasses' : 'may-bypass',
    rules: textsOf(spoken),
    added: textsOf(spoken.filter((effect) => effect !== sure)),
  }
}

function textsOf(effects: readonly Effect[]): readonly string[] {
  return effects.flatMap(({ text }) => text ?? [])
}

/** The rules of Services that concern the packet in table nat: in ipvs mode those that mark it for masquerading. */
function concernOf(packet: Packet, view: PacketView, { endpoints }: PacketDecision): NatConcern {
  const guard = view.rules.guardOf?.(packet.destination)
  if (guard !== undefined) return { place: guard, isTranslated: true }
  const isServed = endpoints.some(({ isCandidate }) => isCandidate) && !isRelayed(packet, view)
  const { nat, firewallHook } = view.rules
  return { place: isServed ? nat : undefined, isTranslated: isServed && firewallHook === 'forward' }
}

interface Effect {
  readonly bypass: Bypass
  readonly outcome: Outcome
  /** Absent: the rules of Services would do nothing else with the packet. */
  readonly text?: string
}

/** undefined: the rule changes nothing for the packet. */
function effectOf(
  bypass: Bypass,
  packet: Packet,
  view: PacketView,
  decision: PacketDecision,
): Effect | undefined {
  if (bypass.kind === 'translated') return diverted(bypass, packet, view, decision)
  const tracking = bypass.kind === 'untracked' ? ({ isUntracked: true } as const) : {}
  const { verdict, client } = decision
  const isBySockets = isRelayed(packet, view) || verdict === 'untouched' || verdict === 'health-check'
  if (isBySockets) return { bypass, outcome: { decision, ...tracking } }
  if (view.rules.firewallHook === 'input') return withoutMasquerade(bypass, decision, tracking)
  const text = `${causeOf(bypass)}; ${thenOf(bypass)}the rules of Services do not see it`
  const steps = [text, onwardOf(packet, view, client)]
  return { bypass, text, outcome: { decision: bypassedPacket(packet, decision, steps), ...tracking } }
}

function causeOf({ kind, isSure, by }: Bypass): string {
  if (kind === 'untracked') return `the packet ${isSure ? 'is not' : 'may not be'} tracked: ${by}`
  return `the packet ${isSure ? 'leaves' : 'may leave'} table nat before the rules of Services: ${by}`
}

function thenOf({ isSure }: Bypass): string {
  return isSure ? '' : 'then '
}

function diverted(
  bypass: Bypass,
  packet: Packet,
  view: PacketView,
  decision: PacketDecision,
): Effect | undefined {
  const { verdict, steps, client } = decision
  const { nat, firewallHook } = view.rules
  // Source ranges in the tables of nftables, and in ipvs mode the mark of the node's own packets, come before table nat.
  const isBySources = nat?.chain === undefined && steps.some(({ rule }) => rule === 'F-056')
  if (verdict === 'drop' && (isBySources || (firewallHook === 'input' && client.isNode))) return undefined
  const gives = bypass.isSure ? 'gives' : 'may give'
  const text = `another program ${gives} the packet another destination: ${bypass.by}`
  const way = 'it goes where that rule sends it, and is not followed there'
  const outcome = { decision: bypassedPacket(packet, decision, [text, way]), isDiverted: true } as const
  return { bypass, text, outcome }
}

/**
 * IPVS serves packets that conntrack does not track (net/netfilter/ipvs/ip_vs_xmit.c), but table nat does not masquerade them. It marks packets
 * to node ports alone: others get their mark in table mangle.
 */
function withoutMasquerade(
  bypass: Bypass,
  decision: PacketDecision,
  tracking: Pick<Outcome, 'isUntracked'>,
): Effect {
  const { verdict, client, endpoints, steps, found } = decision
  const isMarked = bypass.kind === 'accepted' && found?.kind !== 'node-port'
  if (isMarked) return { bypass, outcome: { decision } }
  // An endpoint that reaches itself is recognized at hook postrouting, if the packet is tracked.
  const isLost = ({ endpoint, isMasqueraded }: PacketEndpoint): boolean =>
    isMasqueraded && (bypass.kind === 'untracked' || addressOf(endpoint).destination !== client.address)
  if (verdict === 'drop' && bypass.kind === 'untracked') {
    const text = `${causeOf(bypass)}; ${thenOf(bypass)}rules that drop new connections to Services do not see it`
    return { bypass: { ...bypass, isSure: false }, text, outcome: { decision, ...tracking } }
  }
  if (!endpoints.some(isLost)) return { bypass, outcome: { decision, ...tracking } }
  const text = `${causeOf(bypass)}; ${thenOf(bypass)}it is not masqueraded, and the endpoint sees the client`
  const seen = endpoints.map((each) => (isLost(each) ? { ...each, isMasqueraded: false } : each))
  const changed = { ...decision, endpoints: seen, steps: [...steps, { text }] }
  return { bypass, text, outcome: { decision: changed, ...tracking } }
}

/** A rule that takes the packet away. */
interface Bypass {
  /**
   * `untracked`: conntrack does not track the packet. `accepted`: it leaves a chain that Viaduct shares before Viaduct's own rule.
   * `translated`: another program gives it another destination.
   */
  readonly kind: 'untracked' | 'accepted' | 'translated'
  /** False: it may do so. */
  readonly isSure: boolean
  /** The rule, one clause. */
  readonly by: string
}

/** The rules of Services that concern the packet in table nat. */
interface NatConcern {
  /** undefined: none. */
  readonly place: NatPlace | undefined
  /** They translate it: chains behind them do not see it. */
  readonly isTranslated: boolean
}

/**
 * The rules that take the packet away at the hook prerouting or output, with its original destination. None comes behind one that is sure.
 * Throws KernelError.
 */
async function bypassesAt(
  passage: Passage,
  chains: FirewallChains,
  concern: NatConcern,
): Promise<readonly Bypass[]> {
  const tracking = new Tracking()
  for (const base of chains.at(passage.hook)) {
    const { priority } = base.entrance
    if (priority <= conntrackPriority) await new Walk(passage, chains, tracking.at(base)).through(base)
  }
  const untracked = tracking.found
  if (untracked?.isSure === true) return [untracked]
  const taken = await takenInNat(passage, chains, concern)
  return [untracked, taken].filter((each) => each !== undefined)
}

/** Follows the packet until conntrack sees it. */
class Tracking {
  /** The first rule that leaves it untracked for certain, else the first one that may. */
  found: Bypass | undefined
  #isDecided = false

  at({ entrance: { priority } }: BaseChain): RuleFollower {
    // Of two chains of one priority, either may come first.
    const isEarly = priority < conntrackPriority
    return { rule: (met) => this.#meet(met, isEarly), ownChain: () => undefined }
  }

  #meet({ rule: { tracking }, isSure, by }: MetRule, isEarly: boolean): void {
    if (tracking === undefined || this.#isDecided) return
    this.#isDecided = isSure && isEarly
    if (tracking === 'none' && (this.#isDecided || this.found === undefined))
      this.found = { kind: 'untracked', isSure: this.#isDecided, by: by() }
  }
}

type NatChain = BaseChain & { readonly entrance: FirewallEntrance & { readonly natOrder: number } }

/** The first rule that is sure, else the first one that is not. */
async function takenInNat(
  passage: Passage,
  chains: FirewallChains,
  { place, isTranslated }: NatConcern,
): Promise<Bypass | undefined> {
  const bases = chains
    .at(passage.hook)
    .filter((base): base is NatChain => base.entrance.natOrder !== undefined)
  const own = place?.chain === undefined ? undefined : await chainWithJump(bases, place.chain)
  let doubtful: Bypass | undefined
  for (const base of bases) {
    const isOwn = base === own
    const { natOrder } = base.entrance
    const isBehind = isTranslated && place !== undefined && natOrder > place.order
    if (isBehind) break
    const follower = new NatFollower(isOwn ? place?.chain : undefined, isTranslated)
    await new Walk(passage, chains, follower).through(base)
    const found = follower.found()
    // Of two chains of one priority, either may come first.
    const isOrdered = !isTranslated || isOwn || natOrder !== place?.order
    if (found?.isSure === true && isOrdered) return found
    doubtful ??= found && { ...found, isSure: false }
  }
  return doubtful
}

async function chainWithJump(bases: readonly NatChain[], chain: string): Promise<NatChain | undefined> {
  for (const base of bases) {
    const rules = await base.rules()
    if (rules.some(({ verdict }) => typeof verdict === 'object' && verdict.chain === chain)) return base
  }
  return undefined
}

/** Follows the packet through a chain of type nat. */
class NatFollower implements RuleFollower {
  /** Viaduct's chain to which this one jumps; undefined: to none. */
  readonly #own: string | undefined
  /** Viaduct's chain translates the packet. */
  readonly #isTranslated: boolean
  /** Whether the packet comes to Viaduct's chain. undefined: it does not. */
  #comesToOwn: 'surely' | 'maybe' | undefined
  #translated: Bypass | undefined
  /** The last rule that ends its way, and the first one that may. */
  #end: (() => string) | undefined
  #mayEnd: (() => string) | undefined

  constructor(own: string | undefined, isTranslated: boolean) {
    this.#own = own
    this.#isTranslated = isTranslated
  }

  rule({ rule, chain, isSure, by }: MetRule): void {
    if (this.#isTranslated && this.#comesToOwn !== undefined) return
    if (rule.isTranslating === true) {
      if (isSure || this.#translated === undefined)
        this.#translated = { kind: 'translated', isSure, by: by() }
    } else if (endsChain(rule, chain.entrance !== undefined)) {
      if (isSure && rule.verdict !== 'unknown') this.#end = by
      else this.#mayEnd ??= by
    }
  }

  ownChain(name: string, isSure: boolean): void {
    if (name === this.#own) this.#comesToOwn = isSure ? 'surely' : 'maybe'
  }

  found(): Bypass | undefined {
    if (this.#translated !== undefined || this.#own === undefined || this.#comesToOwn === 'surely')
      return this.#translated
    const isSure = this.#comesToOwn === undefined
    const by = isSure ? (this.#end ?? this.#mayEnd) : this.#mayEnd
    return by && { kind: 'accepted', isSure, by: by() }
  }
}

/** Whether the packet leaves the base chain by the rule, or may. */
function endsChain({ verdict }: FirewallRule, isInBase: boolean): boolean {
  if (typeof verdict === 'object') return verdict.isGoto && isInBase
  return verdict !== 'return' || isInBase
}
