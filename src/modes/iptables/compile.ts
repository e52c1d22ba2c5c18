// One route as chains and frontends of iptables mode, with kube-proxy's meaning of every branch.
import { cidrContains, type Cidr, type IpAddress } from '../../address.js'
import { hostPrefixLength, type Protocol, type XtNetwork, type XtRule } from '../../kernel/index.js'
import type { Backend, Route } from '../../routing/index.js'
import type { DesiredChain, DesiredFrontend, DesiredRoute, DispatchChain } from './desired.js'
import { chainNames, dispatchChains, endpointChain, type ServiceChains } from './names.js'
import { serviceChains, servicePortName } from './names.js'
import type { IptablesModeSettings } from './settings.js'

const protocols = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const

/** What the chains and frontends of a route are made from. */
interface Plan {
  readonly route: Route
  readonly settings: IptablesModeSettings
  readonly name: string
  readonly protocol: Protocol
  readonly chains: ServiceChains
  /** Chain for traffic to the cluster IP. undefined: nobody can take it. */
  readonly internal: string | undefined
  /** Chain for outside traffic that no short circuit takes. undefined: nobody can take it. */
  readonly external: string | undefined
  /** There is a chain for outside traffic; with local policy it may serve pods and the node alone. */
  readonly usesExternal: boolean
  /** Load-balancer traffic has to come from certain sources. */
  readonly usesFirewall: boolean
}

/** Everything that the route wants. Each chain that a rule jumps to is the route's own or the skeleton's. */
export function compileRoute(route: Route, settings: IptablesModeSettings): DesiredRoute {
  const plan = planOf(route, settings)
  const chains = [
    ...externalChain(plan),
    ...firewallChain(plan),
    ...backendsChain(plan, plan.chains.cluster, route.clusterBackends),
    ...backendsChain(plan, plan.chains.local, route.localBackends),
    ...endpointChains(plan),
  ]
  return {
    chains,
    frontends: [
      ...clusterIPFrontends(plan),
      ...externalIPFrontends(plan),
      ...loadBalancerFrontends(plan),
      ...nodePortFrontends(plan),
      ...healthCheckFrontends(plan),
    ],
  }
}

function planOf(route: Route, settings: IptablesModeSettings): Plan {
  const name = servicePortName(route)
  const protocol = protocols[route.protocol]
  const chains = serviceChains(name, protocol)
  const cluster = route.clusterBackends.length > 0 ? chains.cluster : undefined
  const local = route.localBackends.length > 0 ? chains.local : undefined
  const external = route.isExternalLocal ? local : cluster
  const isAccessible =
    route.nodePort !== 0 || route.externalIPs.length > 0 || route.loadBalancerIPs.length > 0
  const usesExternal = isAccessible && (external ?? cluster) !== undefined
  const usesFirewall = usesExternal && route.loadBalancerIPs.length > 0 && route.sourceRanges.length > 0
  const internal = route.isInternalLocal ? local : cluster
  return { route, settings, name, protocol, chains, internal, external, usesExternal, usesFirewall }
}

/** EXT: outside traffic gets this node's address, unless it is to stay with this node's endpoints (F-049, F-051). */
function externalChain(plan: Plan): readonly DesiredChain[] {
  const { route, settings, name, chains, external } = plan
  if (!plan.usesExternal) return []
  const rules: XtRule[] = []
  if (!route.isExternalLocal) {
    rules.push({
      ...comment(plan, `masquerade traffic for ${name} external destinations`),
      target: jump(chainNames.markMasquerade),
    })
  } else if (route.clusterBackends.length > 0) {
    const { localDetector } = settings
    const isFromNode = { addressType: { of: 'source' } } as const
    if (localDetector !== undefined) {
      rules.push({
        ...comment(plan, `pod traffic for ${name} external destinations`),
        ...sourceMatch(localDetector, false),
        target: jump(chains.cluster),
      })
    }
    rules.push(
      {
        ...comment(plan, `masquerade LOCAL traffic for ${name} external destinations`),
        ...isFromNode,
        target: jump(chainNames.markMasquerade),
      },
      {
        ...comment(plan, `route LOCAL traffic for ${name} external destinations`),
        ...isFromNode,
        target: jump(chains.cluster),
      },
    )
  }
  if (external !== undefined) rules.push({ target: jump(external) })
  return [{ table: 'nat', chain: chains.external, rules }]
}

/** FW: sources that may go on; whom it sends nowhere, KUBE-PROXY-FIREWALL drops (F-056). */
function firewallChain(plan: Plan): readonly DesiredChain[] {
  const { route, settings, name, chains } = plan
  if (!plan.usesFirewall) return []
  const { nodeIP } = settings
  const isNodeAllowed =
    nodeIP !== undefined && route.sourceRanges.some((range) => cidrContains(range, nodeIP))
  // What the node itself sends to the address has that address for its source.
  const sources: readonly XtNetwork[] = [
    ...route.sourceRanges.map(networkOf),
    ...(isNodeAllowed ? route.loadBalancerIPs.map((address) => host(plan, address)) : []),
  ]
  const rules = sources.map((source) => ({
    ...comment(plan, `${name} loadbalancer IP`),
    source,
    target: jump(chains.external),
  }))
  return [{ table: 'nat', chain: chains.firewall, rules }]
}

/** SVC and SVL: masquerade what comes to the cluster IP from elsewhere, keep who has affinity, else choose by chance. */
function backendsChain(plan: Plan, chain: string, backends: readonly Backend[]): readonly DesiredChain[] {
  if (backends.length === 0) return []
  const rules = chain === plan.internal ? [...masqueradeRules(plan)] : []
  const seconds = plan.route.affinitySeconds
  if (seconds > 0) {
    for (const backend of backends) {
      const list = endpointChain(plan.name, plan.protocol, backend)
      rules.push({ recent: { list, action: 'check', seconds }, target: jump(list) })
    }
  }
  for (const [i, backend] of backends.entries()) {
    const others = backends.length - i
    const chance = others > 1 ? { probability: 1 / others } : {}
    const rule =
      seconds > 0
        ? { target: jump(endpointChain(plan.name, plan.protocol, backend)) }
        : { protocol: plan.protocol, target: { kind: 'dnat', ...backend } as const }
    rules.push({ ...chance, ...rule })
  }
  return [{ table: 'nat', chain, rules }]
}

/** F-047, F-048. Traffic that came by way of EXT has another destination. */
function masqueradeRules(plan: Plan): readonly XtRule[] {
  const { masqueradeAll, localDetector } = plan.settings
  if (!masqueradeAll && localDetector === undefined) return []
  const source = masqueradeAll || localDetector === undefined ? {} : sourceMatch(localDetector, true)
  return [
    {
      ...comment(plan, `${plan.name} cluster IP`),
      ...source,
      destination: host(plan, plan.route.clusterIP),
      target: jump(chainNames.markMasquerade),
    },
  ]
}

/** SEP: an endpoint that has to remember its clients; SVC and SVL share it. */
function endpointChains(plan: Plan): readonly DesiredChain[] {
  const { route, name, protocol } = plan
  if (route.affinitySeconds === 0) return []
  const chains = new Map<string, DesiredChain>()
  for (const backend of [...route.clusterBackends, ...route.localBackends]) {
    const chain = endpointChain(name, protocol, backend)
    const rule: XtRule = {
      ...comment(plan, name),
      protocol,
      recent: { list: chain, action: 'set' },
      target: { kind: 'dnat', ...backend },
    }
    chains.set(chain, { table: 'nat', chain, rules: [rule] })
  }
  return [...chains.values()]
}

function clusterIPFrontends(plan: Plan): readonly DesiredFrontend[] {
  const { route, name, internal } = plan
  const rule =
    internal === undefined
      ? refusal(plan, route.isInternalLocal)
      : { ...comment(plan, `${name} cluster IP`), target: jump(internal) }
  const dispatch = internal === undefined ? dispatchChains.refusedServices : dispatchChains.services
  return [addressFrontend(plan, dispatch, route.clusterIP, rule)]
}

function externalIPFrontends(plan: Plan): readonly DesiredFrontend[] {
  const target = { ...comment(plan, `${plan.name} external IP`), target: jump(plan.chains.external) }
  return plan.route.externalIPs.flatMap((address) => outsideFrontends(plan, address, target))
}

function loadBalancerFrontends(plan: Plan): readonly DesiredFrontend[] {
  const { route, name, chains, usesFirewall } = plan
  const chain = usesFirewall ? chains.firewall : chains.external
  const target = { ...comment(plan, `${name} loadbalancer IP`), target: jump(chain) }
  const drop: XtRule = {
    ...comment(plan, `${name} traffic not accepted by ${chains.firewall}`),
    target: { kind: 'drop' },
  }
  return route.loadBalancerIPs.flatMap((address) => [
    ...outsideFrontends(plan, address, target),
    ...(usesFirewall ? [addressFrontend(plan, dispatchChains.firewall, address, drop)] : []),
  ])
}

/** An address for outside traffic: where it goes, and what happens to packets that went nowhere. */
function outsideFrontends(plan: Plan, address: IpAddress, rule: XtRule): readonly DesiredFrontend[] {
  const frontends: DesiredFrontend[] = []
  if (plan.usesExternal) frontends.push(addressFrontend(plan, dispatchChains.services, address, rule))
  if (plan.external === undefined) {
    const refused = refusal(plan, plan.route.isExternalLocal)
    frontends.push(addressFrontend(plan, dispatchChains.refusedExternal, address, refused))
  }
  return frontends
}

function nodePortFrontends(plan: Plan): readonly DesiredFrontend[] {
  const { route, name, chains } = plan
  if (route.nodePort === 0) return []
  const frontends: DesiredFrontend[] = []
  if (plan.usesExternal) {
    const rule = { ...comment(plan, name), target: jump(chains.external) }
    frontends.push(portFrontend(dispatchChains.nodePorts, plan.protocol, route.nodePort, rule))
  }
  if (plan.external === undefined) {
    const isToNode = { addressType: { of: 'destination' } } as const
    const rule = { ...isToNode, ...refusal(plan, route.isExternalLocal) }
    frontends.push(portFrontend(dispatchChains.refusedExternal, plan.protocol, route.nodePort, rule))
  }
  return frontends
}

/**
 * The load balancer may ask this node for its health whatever the firewall says. One frontend for the whole Service: all
 * of its ports want the same rule.
 */
function healthCheckFrontends(plan: Plan): readonly DesiredFrontend[] {
  const { healthCheckNodePort, service } = plan.route
  if (healthCheckNodePort === 0) return []
  const rule: XtRule = {
    ...comment(plan, `${service} health check node port`),
    target: { kind: 'accept' },
  }
  return [portFrontend(dispatchChains.healthChecks, 'tcp', healthCheckNodePort, rule)]
}

/** F-053, F-054: refused when nobody is there; silently dropped when somebody is, but not on this node. */
function refusal(plan: Plan, isLocal: boolean): XtRule {
  return isLocal && plan.route.hasEndpoints
    ? { ...comment(plan, `${plan.name} has no local endpoints`), target: { kind: 'drop' } }
    : { ...comment(plan, `${plan.name} has no endpoints`), target: { kind: 'reject' } }
}

function addressFrontend(
  plan: Plan,
  dispatch: DispatchChain,
  address: IpAddress,
  rule: XtRule,
): DesiredFrontend {
  const { protocol, route } = plan
  const destination = host(plan, address)
  return {
    dispatch,
    frontend: { address, protocol, port: route.port },
    rules: [{ ...rule, destination, protocol, destinationPorts: [route.port, route.port] }],
  }
}

function portFrontend(
  dispatch: DispatchChain,
  protocol: Protocol,
  port: number,
  rule: XtRule,
): DesiredFrontend {
  return {
    dispatch,
    frontend: { address: undefined, protocol, port },
    rules: [{ ...rule, protocol, destinationPorts: [port, port] }],
  }
}

/** The detector's match, or that it does not match. */
function sourceMatch(
  detector: NonNullable<IptablesModeSettings['localDetector']>,
  isInverted: boolean,
): Partial<XtRule> {
  const inverted = isInverted ? { isInverted } : {}
  return detector.kind === 'cidr'
    ? { source: { ...networkOf(detector.cidr), ...inverted } }
    : { inInterface: { name: detector.name, ...inverted } }
}

function comment(plan: Plan, text: string): { readonly comment?: string } {
  return plan.settings.withComments ? { comment: text } : {}
}

function jump(chain: string): { readonly kind: 'jump'; readonly chain: string } {
  return { kind: 'jump', chain }
}

function host(plan: Plan, address: IpAddress): XtNetwork {
  return { address, prefixLength: hostPrefixLength(plan.settings.family) }
}

function networkOf({ address, prefixLength }: Cidr): XtNetwork {
  return { address, prefixLength }
}
