// The fixed chains of the mode (docs/ipvs.md). They are the same for any set of Services; sets hold the differences.
import { type IpFamily, parseCidr } from '../../../address.js'
import { BugError } from '../../../errors.js'
import { type XtHook, type XtNetwork, type XtRule, XtState, type XtTableName } from '../../../kernel/index.js'
import type { LocalDetector } from '../../../node/index.js'
import { type SetKey, setName, setSpecs } from './sets.js'

/** The settings that the rules depend on. */
export interface IpvsChainSettings {
  readonly family: IpFamily
  /** One bit: packets that carry it leave with this node's address (F-046). */
  readonly masqueradeMark: number
  readonly masqueradeAll: boolean
  /** undefined: traffic of pods cannot be recognized (F-048). */
  readonly localDetector: LocalDetector | undefined
}

export type IpvsTable = Exclude<XtTableName, 'raw'>
export const ipvsTables: readonly IpvsTable[] = ['mangle', 'filter', 'nat']

/** One chain of ours, or our rules in one of the kernel's chains. */
export type FixedChain = { readonly table: IpvsTable; readonly rules: readonly XtRule[] } & (
  { readonly chain: string } | { readonly hook: XtHook }
)

const chains = {
  services: 'KUBE-SERVICES',
  postrouting: 'KUBE-POSTROUTING',
  nodePort: 'KUBE-NODE-PORT',
  loadBalancer: 'KUBE-LOAD-BALANCER',
  markMasquerade: 'KUBE-MARK-MASQ',
  forward: 'KUBE-FORWARD',
  proxyFirewall: 'KUBE-PROXY-FIREWALL',
  sourceRanges: 'KUBE-SOURCE-RANGES-FIREWALL',
  filter: 'KUBE-IPVS-FILTER',
  /** This and the next chains are Viaduct's own: rules for connections before IPVS gets them. */
  input: 'KUBE-IPVS-IN',
  output: 'KUBE-IPVS-OUT',
  masquerading: 'KUBE-IPVS-MASQ',
} as const

/** Our chains in table mangle, where kube-proxy's ipvs mode has none. */
export const mangleChains: readonly string[] = [
  chains.input,
  chains.output,
  chains.sourceRanges,
  chains.masquerading,
]

const loopback: Readonly<Record<IpFamily, XtNetwork>> = {
  ipv4: constantNetwork('127.0.0.0/8'),
  ipv6: constantNetwork('::1/128'),
}

const accept = { kind: 'accept' } as const
const drop = { kind: 'drop' } as const
const backToCaller = { kind: 'return' } as const
const isNew = { state: { bits: XtState.new } } as const
const isFromNode = { addressType: { of: 'source' } } as const
const isFromElsewhere = { addressType: { of: 'source', isInverted: true } } as const

/** Sets without their desired content. */
export interface UnfitSets {
  /** Sets that are missing, or belong to another program. */
  readonly unusable: ReadonlySet<SetKey>
  /** The unusable sets, and those that lack entries. */
  readonly incomplete: ReadonlySet<SetKey>
}

const allFit: UnfitSets = { unusable: new Set(), incomplete: new Set() }

/**
 * Every chain and hook. A rule on an empty set matches nothing, so all rules are present, except those on an unusable set: the
 * kernel would refuse the table, or the rule would match entries of another program.
 */
export function compileChains(settings: IpvsChainSettings, unfit: UnfitSets = allFit): readonly FixedChain[] {
  const unusable = new Set([...unfit.unusable].map((key) => setName(key, settings.family)))
  const isUsable = ({ set, target }: XtRule): boolean => {
    const name = set?.name ?? (target.kind === 'map-mark' ? target.set.name : undefined)
    return name === undefined || !unusable.has(name)
  }
  return allChains(new Rules(settings, unfit)).map((chain) => ({
    ...chain,
    rules: chain.rules.filter(isUsable),
  }))
}

function allChains(rules: Rules): readonly FixedChain[] {
  return [
    { table: 'mangle', chain: chains.sourceRanges, rules: rules.sourceRanges() },
    { table: 'mangle', chain: chains.masquerading, rules: rules.masquerading() },
    { table: 'mangle', chain: chains.input, rules: rules.input() },
    { table: 'mangle', chain: chains.output, rules: rules.output() },
    { table: 'mangle', hook: 'INPUT', rules: [jump(chains.input, 'kubernetes ipvs traffic policies')] },
    { table: 'mangle', hook: 'OUTPUT', rules: [jump(chains.output, 'kubernetes ipvs traffic policies')] },
    { table: 'nat', chain: chains.services, rules: rules.services() },
    { table: 'nat', chain: chains.postrouting, rules: rules.postrouting() },
    { table: 'nat', chain: chains.nodePort, rules: rules.nodePorts() },
    { table: 'nat', chain: chains.loadBalancer, rules: rules.loadBalancers() },
    { table: 'nat', chain: chains.markMasquerade, rules: rules.markMasquerade() },
    { table: 'nat', hook: 'PREROUTING', rules: [jump(chains.services, 'kubernetes service portals')] },
    { table: 'nat', hook: 'OUTPUT', rules: [jump(chains.services, 'kubernetes service portals')] },
    { table: 'nat', hook: 'POSTROUTING', rules: [jump(chains.postrouting, 'kubernetes postrouting rules')] },
    { table: 'filter', chain: chains.forward, rules: rules.forward() },
    { table: 'filter', chain: chains.nodePort, rules: [rules.on('healthCheckNodePort', 'dst', accept)] },
    { table: 'filter', chain: chains.proxyFirewall, rules: [rules.guarded()] },
    { table: 'filter', chain: chains.sourceRanges, rules: rules.sourceRanges() },
    { table: 'filter', chain: chains.filter, rules: rules.filter() },
    { table: 'filter', hook: 'INPUT', rules: inputHook },
    { table: 'filter', hook: 'FORWARD', rules: forwardHook },
  ]
}

/** The firewall chain comes first: the chains after it accept packets. */
const inputHook: readonly XtRule[] = [
  jump(chains.proxyFirewall, 'kube-proxy firewall rules'),
  jump(chains.filter, 'kubernetes ipvs access filter'),
  jump(chains.nodePort, 'kubernetes health check rules'),
]

const forwardHook: readonly XtRule[] = [
  jump(chains.proxyFirewall, 'kube-proxy firewall rules'),
  jump(chains.forward, 'kubernetes forwarding rules'),
]

/** Only packets that pass table nat may have the mark: its last chain removes it (F-046). */
const masquerading: XtRule = { isUnconfirmed: true, target: to(chains.masquerading) }

/** The rules of each chain, in one family. */
class Rules {
  readonly #settings: IpvsChainSettings
  readonly #unfit: UnfitSets

  constructor(settings: IpvsChainSettings, unfit: UnfitSets) {
    this.#settings = settings
    this.#unfit = unfit
  }

  /** A rule for packets that match the set, with one direction for each dimension of the set. */
  on(set: SetKey, directions: string, target: XtRule['target'], match: Partial<XtRule> = {}): XtRule {
    return { comment: setSpecs[set].comment, ...match, set: this.#setOf(set, directions), target }
  }

  services(): readonly XtRule[] {
    const { family } = this.#settings
    const markMasquerade = to(chains.markMasquerade)
    const addresses = ['clusterIP', 'loadBalancer', 'externalIP', 'externalIPLocal'] as const
    return [
      { source: loopback[family], target: backToCaller },
      this.on('loadBalancer', 'dst,dst', to(chains.loadBalancer)),
      this.#clusterIPs(markMasquerade),
      this.on('externalIP', 'dst,dst', markMasquerade),
      // Under policy Local the node itself reaches endpoints of other nodes too, which must answer to it (F-051).
      this.on('externalIPLocal', 'dst,dst', markMasquerade, isFromNode),
      // Before node ports, so that a port of a VIP is not taken for a node port of the same number.
      ...addresses.map((set) => ({ set: this.#setOf(set, 'dst,dst'), target: accept })),
      this.on('nodePortIPs', 'dst', to(chains.nodePort)),
    ]
  }

  /** F-047, F-048. */
  #clusterIPs(target: XtRule['target']): XtRule {
    const { masqueradeAll, localDetector } = this.#settings
    if (masqueradeAll) return this.on('clusterIP', 'dst,dst', target)
    // Without a detector, packets of the node with a VIP as their source still need another source address.
    if (localDetector === undefined) return this.on('clusterIP', 'src,dst', target)
    return this.on('clusterIP', 'dst,dst', target, detected(localDetector, { isInverted: true }))
  }

  loadBalancers(): readonly XtRule[] {
    return [
      this.on('loadBalancerLocal', 'dst,dst', backToCaller, isFromElsewhere),
      { target: to(chains.markMasquerade) },
    ]
  }

  nodePorts(): readonly XtRule[] {
    const kinds = [
      { protocol: 'tcp', all: 'nodePortTcp', local: 'nodePortLocalTcp', directions: 'dst' },
      { protocol: 'udp', all: 'nodePortUdp', local: 'nodePortLocalUdp', directions: 'dst' },
      { protocol: 'sctp', all: 'nodePortSctp', local: 'nodePortLocalSctp', directions: 'dst,dst' },
    ] as const
    return kinds.flatMap(({ protocol, all, local, directions }) => [
      this.on(local, directions, backToCaller, { protocol, ...isFromElsewhere }),
      this.on(all, directions, to(chains.markMasquerade), { protocol }),
    ])
  }

  markMasquerade(): readonly XtRule[] {
    return [{ target: this.#masqueradeMark }]
  }

  /**
   * The packets that `services` marks by their address. A connection to a VIP that has passed the guard (docs/adr/0027) comes to no other
   * chain of table nat.
   */
  masquerading(): readonly XtRule[] {
    const target = this.#masqueradeMark
    const { family } = this.#settings
    return [
      { source: loopback[family], target: backToCaller },
      this.#clusterIPs(target),
      this.on('externalIP', 'dst,dst', target),
      this.on('externalIPLocal', 'dst,dst', target, isFromNode),
      this.on('loadBalancerLocal', 'dst,dst', backToCaller, isFromElsewhere),
      this.on('loadBalancer', 'dst,dst', target),
    ]
  }

  get #masqueradeMark(): XtRule['target'] {
    const { masqueradeMark: mark } = this.#settings
    return { kind: 'mark', value: mark, mask: mark }
  }

  postrouting(): readonly XtRule[] {
    const { masqueradeMark: mark } = this.#settings
    return [
      // A client that is its own endpoint (F-050), on any node; packets from the node to itself stay on lo.
      {
        isSourceDestination: true,
        outInterface: { name: 'lo', isInverted: true },
        target: to(chains.markMasquerade),
      },
      { mark: { value: mark, mask: mark, isInverted: true }, target: backToCaller },
      { target: { kind: 'mark', value: mark, mask: 0 } },
      {
        comment: 'kubernetes service traffic requiring SNAT',
        target: { kind: 'masquerade', isRandomFully: true },
      },
    ]
  }

  forward(): readonly XtRule[] {
    const { masqueradeMark: mark } = this.#settings
    return [
      {
        comment: 'kubernetes forwarding rules',
        mark: { value: mark, mask: mark },
        target: accept,
      },
      {
        comment: 'kubernetes forwarding conntrack rule',
        state: { bits: XtState.related | XtState.established },
        target: accept,
      },
    ]
  }

  guarded(): XtRule {
    return this.on('loadBalancerGuarded', 'dst,dst', to(chains.sourceRanges), isNew)
  }

  sourceRanges(): readonly XtRule[] {
    return [
      this.on('loadBalancerSources', 'dst,dst,src', backToCaller),
      this.on('loadBalancerOwnSource', 'dst,dst,src', backToCaller),
      { target: drop },
    ]
  }

  filter(): readonly XtRule[] {
    const known = ['loadBalancer', 'clusterIP', 'externalIP', 'externalIPLocal'] as const
    // A Service that is missing in a set must not be taken for an unused port.
    const isAnyIncomplete = [...known, 'healthCheckNodePort' as const].some((set) =>
      this.#unfit.incomplete.has(set),
    )
    return [
      // Before IPVS, which would write a line to the kernel's log for each packet (F-053).
      this.on('refused', 'dst,dst', { kind: 'reject' }, isNew),
      ...known.map((set) => ({ set: this.#setOf(set, 'dst,dst'), target: backToCaller })),
      { set: this.#setOf('healthCheckNodePort', 'dst'), target: backToCaller },
      ...(isAnyIncomplete
        ? []
        : [{ ...isNew, set: this.#setOf('vips', 'dst'), target: { kind: 'reject' } } as const]),
    ]
  }

  /**
   * Packets of pods get the mark of their frontend. Those of outside clients are dropped if only other nodes have endpoints for
   * them (F-054). Without a detector, pods look like outside clients: all clients use the frontend's own virtual server (F-052).
   */
  input(): readonly XtRule[] {
    const { localDetector } = this.#settings
    const forAllSources = this.on('dropped', 'dst,dst', drop, isNew)
    if (localDetector === undefined) return [forAllSources, masquerading]
    const outside = { ...isNew, ...detected(localDetector, { isInverted: true }) }
    return [
      forAllSources,
      this.on('droppedOutside', 'dst,dst', drop, outside),
      masquerading,
      this.#marking(detected(localDetector, { isInverted: false })),
    ]
  }

  /**
   * The node's own packets get the mark before nat marks them for masquerading (priorities: mangle -150, nat -100) and before IPVS
   * takes them (-98). Source ranges are checked here too, since filter (0) sees the packets after IPVS.
   */
  output(): readonly XtRule[] {
    return [this.on('dropped', 'dst,dst', drop, isNew), this.guarded(), masquerading, this.#marking({})]
  }

  /** Matches every packet, not only new ones: the connection's mark must not depend on the packet that made it. */
  #marking(match: Partial<XtRule>): XtRule {
    const { comment } = setSpecs.marked
    return { comment, ...match, target: { kind: 'map-mark', set: this.#setOf('marked', 'dst,dst') } }
  }

  #setOf(set: SetKey, directions: string): NonNullable<XtRule['set']> {
    const sides = directions.split(',').map((side) => (side === 'src' ? 'src' : 'dst'))
    return { name: setName(set, this.#settings.family), directions: sides }
  }
}

function detected(
  detector: LocalDetector,
  { isInverted }: { readonly isInverted: boolean },
): Partial<XtRule> {
  if (detector.kind === 'interface') return { inInterface: { name: detector.name, isInverted } }
  const { address, prefixLength } = detector.cidr
  return { source: { address, prefixLength, isInverted } }
}

function to(chain: string): { readonly kind: 'jump'; readonly chain: string } {
  return { kind: 'jump', chain }
}

function jump(chain: string, comment: string): XtRule {
  return { comment, target: to(chain) }
}

function constantNetwork(text: string): XtNetwork {
  const cidr = parseCidr(text)
  if (cidr === undefined) throw new BugError(`${text} is not a CIDR`)
  return { address: cidr.address, prefixLength: cidr.prefixLength }
}
