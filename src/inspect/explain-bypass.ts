// The decision about a packet, with the rules of other programs that take it away before the rules of Services.
import { isLoopback } from '../node/index.js'
import { type Bypass, bypassesAt, type NatConcern } from './bypass.js'
import type { Packet, PacketView } from './explain-client.js'
import { isRelayed } from './explain-frontend.js'
import { bypassedPacket, onwardOf, type PacketDecision, type PacketEndpoint } from './explain-packet.js'
import { addressOf, arrivalOf, type Outcome } from './explain-passage.js'
import type { ChainReader } from './firewall.js'

export interface Bypassed {
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
