// The rules that exist for any set of Services: jumps from the kernel's chains, masquerading, forwarding, and tails of dispatch chains.
import { cidrContains, type Cidr, type IpFamily, parseCidr } from '../../../address.js'
import { BugError } from '../../../errors.js'
import {
  hostPrefixLength,
  type XtHook,
  type XtNetwork,
  type XtOp,
  type XtRule,
  XtState,
} from '../../../kernel/index.js'
import {
  chainNames,
  type CountedRules,
  type DesiredChain,
  type DispatchChain,
  dispatchChains,
  type IptablesTable,
  type Skeleton,
} from '../../../layers/xtables/index.js'
import type { IptablesModeSettings } from './settings.js'

const loopback: Readonly<Record<IpFamily, Cidr>> = {
  ipv4: constantCidr('127.0.0.0/8'),
  ipv6: constantCidr('::1/128'),
}

/** After DNAT, a client that is its own endpoint (F-050); one rule here replaces one per endpoint. */
const hairpin = { state: { bits: XtState.dnat }, isSourceDestination: true } as const

/** Chains, hooks and tails of the mode. Comments stay in large clusters too: other programs look for these rules. */
export function compileSkeleton(settings: IptablesModeSettings): Skeleton {
  return {
    chains: [
      ...natChains(settings),
      { table: 'filter', chain: chainNames.forward, rules: forwardRules(settings) },
      // The chain is kubelet's, with the same single rule. Without the rule Viaduct must not touch the chain: emptying it, as
      // kube-proxy does at a full sync, removes kubelet's rules.
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
    // The rule sets the mark, and the next rules clear it: a marked packet that enters the stack once more (a tunnel, a bridge)
    // must not be masqueraded again.
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
    // kube-proxy marks these packets before they are forwarded; Viaduct marks them afterwards, in nat POSTROUTING. Packets of known
    // connections match the rule before.
    { ...hairpin, comment: 'kubernetes forwarding rules', target: { kind: 'accept' } },
  ]
}

/** Drops packets of other machines to loopback addresses, which the kernel accepts while it routes loopback addresses (CVE-2020-8558). */
const martianRule: XtRule = {
  comment: 'block incoming localnet connections',
  source: { ...networkOf(loopback.ipv4), isInverted: true },
  destination: networkOf(loopback.ipv4),
  state: { bits: XtState.related | XtState.established | XtState.dnat, isInverted: true },
  target: { kind: 'drop' },
}

/** The operations of table filter that add the guard alone, as in the whole skeleton: before the kernel routes loopback addresses. */
export function localhostGuard(): readonly XtOp[] {
  const rules = [to(chainNames.firewall)]
  return [
    { op: 'set-chain', chain: chainNames.firewall, rules: [martianRule] },
    { op: 'set-hook', chain: 'INPUT', rules },
    { op: 'set-hook', chain: 'OUTPUT', rules },
  ]
}

const isNew = { state: { bits: XtState.new } } as const

/** The final order of kube-proxy's rules, each of which it inserts at the head. */
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
 * A rule that only counts. It stands in filter, which is small where few Services are refused. After DNAT, the source shows that
 * the destination was a loopback address too, but not that it was a node port: connections to other frontends of ours count as
 * well. The mark excludes DNAT by other programs, which sets none, and packets that are sent again: table nat, which sets the mark,
 * sees each connection once.
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

/** The rules behind all frontends of a dispatch chain. In nat, a packet that matches no address of a Service may match a node port. */
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
