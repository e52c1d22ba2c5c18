// What is there whatever the Services are: the ways in, the tails, and what masqueraded and forwarded packets go through.
import { cidrContains, type Cidr, type IpFamily, parseCidr } from '../../../address.js'
import { BugError } from '../../../errors.js'
import { hostPrefixLength, type XtHook, type XtNetwork, type XtRule, XtState } from '../../../kernel/index.js'
import type { DesiredChain, DispatchChain, IptablesTable, Skeleton } from './desired.js'
import { chainNames, dispatchChains } from './names.js'
import type { IptablesModeSettings } from './settings.js'

const loopback: Readonly<Record<IpFamily, Cidr>> = {
  ipv4: constantCidr('127.0.0.0/8'),
  ipv6: constantCidr('::1/128'),
}

/** After DNAT, a client that was sent to itself (F-050); one rule here instead of one per endpoint. */
const hairpin = { state: { bits: XtState.dnat }, isSourceDestination: true } as const

/** Chains, hooks and tails of the mode. Comments stay in large clusters too: other programs look for these rules. */
export function compileSkeleton(settings: IptablesModeSettings): Skeleton {
  return {
    chains: [
      ...natChains(settings),
      { table: 'filter', chain: chainNames.forward, rules: forwardRules(settings) },
      // kubelet's chain, with the same single rule. Without the rule it is not ours to touch: emptying it, as kube-proxy
      // does at a full sync, takes kubelet's rules away.
      ...(settings.localhostNodePorts
        ? [{ table: 'filter', chain: chainNames.firewall, rules: [martianRule] } as const]
        : []),
      { table: 'filter', chain: chainNames.canary, rules: [] },
    ],
    hooks: hooks(settings),
    tails: Object.values(dispatchChains).map((dispatch) => ({ dispatch, rules: tail(dispatch, settings) })),
  }
}

function natChains(settings: IptablesModeSettings): readonly DesiredChain[] {
  const mark = settings.masqueradeMark
  const postrouting: readonly XtRule[] = [
    // By way of the mark, which the next rules clear: a marked packet that enters the stack once more (a tunnel, a
    // bridge) must not be masqueraded again.
    { ...hairpin, target: { kind: 'jump', chain: chainNames.markMasquerade } },
    { mark: { value: mark, mask: mark, isInverted: true }, target: { kind: 'return' } },
    { target: { kind: 'mark', value: mark, mask: 0 } },
    {
      comment: 'kubernetes service traffic requiring SNAT',
      target: { kind: 'masquerade', isRandomFully: true },
    },
  ]
  return [
    { table: 'nat', chain: chainNames.postrouting, rules: postrouting },
    {
      table: 'nat',
      chain: chainNames.markMasquerade,
      rules: [{ target: { kind: 'mark', value: mark, mask: mark } }],
    },
    { table: 'nat', chain: chainNames.canary, rules: [] },
  ]
}

function forwardRules(settings: IptablesModeSettings): readonly XtRule[] {
  const mark = settings.masqueradeMark
  const invalid: readonly XtRule[] = [{ state: { bits: XtState.invalid }, target: { kind: 'drop' } }]
  return [
    ...(settings.dropsInvalid ? invalid : []),
    {
      comment: 'kubernetes forwarding rules',
      mark: { value: mark, mask: mark },
      target: { kind: 'accept' },
    },
    {
      comment: 'kubernetes forwarding conntrack rule',
      state: { bits: XtState.related | XtState.established },
      target: { kind: 'accept' },
    },
    // kube-proxy marks these before they are forwarded, ours get their mark behind it. Only new connections come here.
    { ...hairpin, comment: 'kubernetes forwarding rules', target: { kind: 'accept' } },
  ]
}

const martianRule: XtRule = {
  comment: 'block incoming localnet connections',
  source: { ...networkOf(loopback.ipv4), isInverted: true },
  destination: networkOf(loopback.ipv4),
  state: { bits: XtState.related | XtState.established | XtState.dnat, isInverted: true },
  target: { kind: 'drop' },
}

const isNew = { state: { bits: XtState.new } } as const

/** The order in which kube-proxy's rules come to stand, each of its insertions at the head. */
function hooks(settings: IptablesModeSettings): Skeleton['hooks'] {
  const firewall = settings.localhostNodePorts ? [to(chainNames.firewall)] : []
  const balancers = to(chainNames.proxyFirewall, 'kubernetes load balancer firewall', isNew)
  const services = 'kubernetes service portals'
  const externals = to(chainNames.externalServices, 'kubernetes externally-visible service portals', isNew)
  const rules: Readonly<Record<IptablesTable, Partial<Record<XtHook, readonly XtRule[]>>>> = {
    filter: {
      INPUT: [
        ...firewall,
        balancers,
        to(chainNames.nodePorts, 'kubernetes health check service ports'),
        externals,
      ],
      FORWARD: [
        balancers,
        to(chainNames.forward, 'kubernetes forwarding rules'),
        to(chainNames.services, services, isNew),
        externals,
      ],
      OUTPUT: [...firewall, balancers, to(chainNames.services, services, isNew)],
    },
    nat: {
      PREROUTING: [to(chainNames.services, services)],
      OUTPUT: [to(chainNames.services, services)],
      POSTROUTING: [to(chainNames.postrouting, 'kubernetes postrouting rules')],
    },
  }
  return tables.flatMap((table) =>
    hookOrder.flatMap((chain) => {
      const own = rules[table][chain]
      return own === undefined ? [] : [{ table, chain, rules: own }]
    }),
  )
}

const tables: readonly IptablesTable[] = ['filter', 'nat']
const hookOrder: readonly XtHook[] = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']

function to(chain: string, comment?: string, match: Partial<XtRule> = {}): XtRule {
  return { ...match, ...(comment === undefined ? {} : { comment }), target: { kind: 'jump', chain } }
}

/** A rule of table filter, by its chain and place; from the end where negative. */
export interface CountedRule {
  readonly chain: string
  readonly place: number
}

/** Rules whose packets somebody wants to know; absent: there is no such rule. */
export interface CountedRules {
  /** That drops packets which connection tracking does not know. */
  readonly invalidDropped?: CountedRule
  /** That new connections pass which a loopback address has opened to a node port. */
  readonly localhostAccepted?: CountedRule
}

export function countedRules(
  settings: Pick<IptablesModeSettings, 'dropsInvalid' | 'localhostNodePorts'>,
): CountedRules {
  return {
    ...(settings.dropsInvalid ? { invalidDropped: { chain: chainNames.forward, place: 0 } } : {}),
    ...(settings.localhostNodePorts
      ? { localhostAccepted: { chain: dispatchChains.refusedServices.chain, place: -1 } }
      : {}),
  }
}

/**
 * Counts, and does nothing else. Here as table filter is small where few Services are refused; after DNAT, the source tells that the
 * destination was a loopback address too, but not that a node port was meant: another frontend of ours counts as well. The mark is for
 * other programs' DNAT, which has none, and for packets that are sent again: table nat, which marks, is passed once per connection.
 */
function localhostRule({ masqueradeMark: mark }: IptablesModeSettings): XtRule {
  return {
    comment: 'kubernetes localhost nodeports',
    source: networkOf(loopback.ipv4),
    mark: { value: mark, mask: mark },
    state: { bits: XtState.dnat },
    target: { kind: 'return' },
  }
}

/** Who is not sent to a Service by its address may be sent there by a port of this node. */
function tail(dispatch: DispatchChain, settings: IptablesModeSettings): readonly XtRule[] {
  if (dispatch === dispatchChains.refusedServices && settings.localhostNodePorts)
    return [localhostRule(settings)]
  if (dispatch !== dispatchChains.services) return []
  const rule = to(
    chainNames.nodePorts,
    'kubernetes service nodeports; NOTE: this must be the last rule in this chain',
  )
  const local = networkOf(loopback[settings.family])
  if (settings.nodePortAddresses === 'all') {
    const addressType = { of: 'destination' } as const
    return settings.localhostNodePorts
      ? [{ ...rule, addressType }]
      : [{ ...rule, addressType, destination: { ...local, isInverted: true } }]
  }
  const isServed = (address: Parameters<typeof cidrContains>[1]) =>
    settings.localhostNodePorts || !cidrContains(loopback[settings.family], address)
  const prefixLength = hostPrefixLength(settings.family)
  return settings.nodePortAddresses
    .filter(isServed)
    .map((address) => ({ ...rule, destination: { address, prefixLength } }))
}

function networkOf({ address, prefixLength }: Cidr): XtNetwork {
  return { address, prefixLength }
}

function constantCidr(text: string): Cidr {
  const cidr = parseCidr(text)
  if (cidr === undefined) throw new BugError(`${text} is not a CIDR`)
  return cidr
}
