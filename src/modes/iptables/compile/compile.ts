// Compiles one route into chains and frontends of iptables mode, with the meaning of each branch in kube-proxy.
import { type Cidr, cidrContains, hasAddress, type IpAddress } from '../../../address.js'
import {
  hostPrefixLength,
  type Protocol,
  type XtNetwork,
  type XtRule,
  type XtTarget,
} from '../../../kernel/index.js'
import { servicePortName } from '../../../model/index.js'
import {
  type Backend,
  type Frontend,
  frontendProtocols,
  type Route,
  verdictOf,
} from '../../../routing/index.js'
import {
  chainNames,
  type DesiredChain,
  type DesiredFrontend,
  type DesiredRoute,
  type DispatchChain,
  dispatchChains,
  endpointChain,
  type EndpointRules,
  ServiceChains,
} from '../../../layers/xtables/index.js'
import type { IptablesModeSettings } from './settings.js'

/** The input for the chains and frontends of a route. */
interface Plan {
  readonly route: Route
  readonly settings: IptablesModeSettings
  readonly name: string
  readonly protocol: Protocol
  readonly chains: ServiceChains
  /** Load-balancer VIPs that are no external IPs. */
  readonly loadBalancerIPs: readonly IpAddress[]
  /** Chain for traffic to the cluster IP. undefined: no endpoint may serve it, or there is none. */
  readonly internal: string | undefined
  /** Chain for outside traffic that no short circuit takes. undefined: no endpoint may serve it. */
  readonly external: string | undefined
  /** There is a chain for outside traffic; with local policy it may serve pods and the node alone. */
  readonly usesExternal: boolean
  /** Load-balancer traffic must come from certain sources. */
  readonly usesFirewall: boolean
}

/** All desired objects of the route. Each chain that a rule jumps to is the route's own or the skeleton's. */
export function compileRoute(route: Route, settings: IptablesModeSettings): DesiredRoute {
  const plan = planOf(route, settings)
  const chains: DesiredChain[] = []
  addExternalChain(plan, chains)
  addFirewallChain(plan, chains)
  addBackendsChain(plan, { chain: plan.chains.cluster, backends: route.clusterBackends }, chains)
  addBackendsChain(plan, { chain: plan.chains.local, backends: route.localBackends }, chains)
  if (route.affinitySeconds > 0) chains.push(...endpointChains(plan))
  const frontends: DesiredFrontend[] = []
  addClusterIP(plan, frontends)
  for (const address of route.externalIPs) addExternalIP(plan, address, frontends)
  for (const address of plan.loadBalancerIPs) addLoadBalancerIP(plan, address, frontends)
  if (route.nodePort !== 0) addNodePort(plan, frontends)
  if (route.healthCheckNodePort !== 0) frontends.push(healthCheckFrontend(plan))
  return { chains, frontends }
}

/** The rules of `compileRoute` that lead to endpoints. Makes no rules: counters ask for those of every route. */
export function endpointRules(route: Route, settings: IptablesModeSettings): readonly EndpointRules[] {
  const plan = planOf(route, settings)
  const lists = [
    { chain: plan.chains.cluster, backends: route.clusterBackends },
    { chain: plan.chains.local, backends: route.localBackends },
  ].filter(({ backends }) => backends.length > 0)
  if (route.affinitySeconds > 0) {
    const chains = new Map<string, Backend>()
    for (const { backends } of lists)
      for (const backend of backends) chains.set(endpointChain(plan.name, plan.protocol, backend), backend)
    return [...chains].map(([chain, backend]) => ({ chain, size: 1, first: 0, backends: [backend] }))
  }
  return lists.map(({ chain, backends }) => {
    const first = chain === plan.internal && isMasqueraded(plan) ? 1 : 0
    return { chain, size: first + backends.length, first, backends }
  })
}

/** The part of a route for a node whose Services are in a table of their own: the rule that lets health checks in. */
export function compileHealthCheck(route: Route, settings: IptablesModeSettings): readonly DesiredFrontend[] {
  return [healthCheckFrontend(planOf(route, settings))]
}

function planOf(route: Route, settings: IptablesModeSettings): Plan {
  const name = servicePortName(route)
  const protocol = frontendProtocols[route.protocol]
  const chains = new ServiceChains(name, protocol)
  const cluster = route.clusterBackends.length > 0 ? chains.cluster : undefined
  const local = route.localBackends.length > 0 ? chains.local : undefined
  const external = route.isExternalLocal ? local : cluster
  // For an address that is an external IP too, kube-proxy has two rules, and the first one, for the external IP, decides.
  const loadBalancerIPs = route.loadBalancerIPs.filter((address) => !hasAddress(route.externalIPs, address))
  const isAccessible = route.nodePort !== 0 || route.externalIPs.length > 0 || loadBalancerIPs.length > 0
  const usesExternal = isAccessible && (external ?? cluster) !== undefined
  const usesFirewall = usesExternal && loadBalancerIPs.length > 0 && route.sourceRanges.length > 0
  const internal = route.clusterIP === undefined ? undefined : route.isInternalLocal ? local : cluster
  return {
    route,
    settings,
    name,
    protocol,
    chains,
    loadBalancerIPs,
    internal,
    external,
    usesExternal,
    usesFirewall,
  }
}

/** EXT: outside traffic gets this node's address as its source, unless only this node's endpoints serve it (F-049, F-051). */
function addExternalChain(plan: Plan, chains: DesiredChain[]): void {
  const { route, external } = plan
  if (!plan.usesExternal) return
  const rules = route.isExternalLocal ? shortCircuitRules(plan) : [markRule(plan, 'traffic')]
  const last = external === undefined ? [] : [{ target: jump(external) }]
  chains.push({ table: 'nat', chain: plan.chains.external, rules: [...rules, ...last] })
}

/** Pods and the node itself reach the endpoints of the whole cluster. The node's traffic is masqueraded, so that answers come back. */
function shortCircuitRules(plan: Plan): readonly XtRule[] {
  const { route, settings, name, chains } = plan
  if (route.clusterBackends.length === 0) return []
  const { localDetector } = settings
  const target = jump(chains.cluster)
  const fromPods =
    localDetector === undefined
      ? []
      : [
          commented(
            plan,
            `pod traffic for ${name} external destinations`,
            withSource({ target }, localDetector, { isInverted: false }),
          ),
        ]
  return [
    ...fromPods,
    markRule(plan, 'LOCAL traffic', isFromNode),
    commented(plan, `route LOCAL traffic for ${name} external destinations`, { ...isFromNode, target }),
  ]
}

const isFromNode: Partial<XtRule> = { addressType: { of: 'source' } }

function markRule(plan: Plan, what: string, match: Partial<XtRule> = {}): XtRule {
  const target = jump(chainNames.markMasquerade)
  return commented(plan, `masquerade ${what} for ${plan.name} external destinations`, { ...match, target })
}

/** FW: leads packets of the allowed sources to EXT. KUBE-PROXY-FIREWALL drops all others (F-056). */
function addFirewallChain(plan: Plan, chains: DesiredChain[]): void {
  const { route, settings, name } = plan
  if (!plan.usesFirewall) return
  const { nodeIP } = settings
  const isNodeAllowed =
    nodeIP !== undefined && route.sourceRanges.some((range) => cidrContains(range, nodeIP))
  // Packets of the node itself to the address have that address as their source.
  const sources: readonly XtNetwork[] = [
    ...route.sourceRanges.map(networkOf),
    ...(isNodeAllowed ? plan.loadBalancerIPs.map((address) => host(plan, address)) : []),
  ]
  const target = jump(plan.chains.external)
  const rules = sources.map((source) => commented(plan, `${name} loadbalancer IP`, { source, target }))
  chains.push({ table: 'nat', chain: plan.chains.firewall, rules })
}

/** SVC and SVL: masquerade traffic from elsewhere to the cluster IP, follow session affinity, otherwise choose an endpoint at random. */
function addBackendsChain(
  plan: Plan,
  { chain, backends }: { readonly chain: string; readonly backends: readonly Backend[] },
  chains: DesiredChain[],
): void {
  if (backends.length === 0) return
  const { route, name, protocol } = plan
  const rules: XtRule[] = []
  const { clusterIP } = route
  if (chain === plan.internal && clusterIP !== undefined && isMasqueraded(plan))
    rules.push(masqueradeRule(plan, clusterIP))
  const seconds = route.affinitySeconds
  const targets = backends.map((backend) =>
    seconds > 0 ? jump(endpointChain(name, protocol, backend)) : dnat(backend),
  )
  for (const target of targets) {
    if (target.kind === 'dnat') break
    rules.push({ recent: { list: target.chain, action: 'check', seconds }, target })
  }
  for (const [i, target] of targets.entries()) {
    const others = targets.length - i
    if (others > 1) rules.push({ protocol, probability: 1 / others, target })
    else rules.push({ protocol, target })
  }
  chains.push({ table: 'nat', chain, rules })
}

/** Whether some traffic to the cluster IP is masqueraded. */
function isMasqueraded({ settings: { masqueradeAll, localDetector } }: Plan): boolean {
  return masqueradeAll || localDetector !== undefined
}

/** F-047, F-048. The rule matches the cluster IP alone: traffic from EXT has another destination. */
function masqueradeRule(plan: Plan, clusterIP: IpAddress): XtRule {
  const { masqueradeAll, localDetector } = plan.settings
  const destination = host(plan, clusterIP)
  const target = jump(chainNames.markMasquerade)
  const all: XtRule = { destination, target }
  const rule =
    masqueradeAll || localDetector === undefined ? all : withSource(all, localDetector, { isInverted: true })
  return commented(plan, `${plan.name} cluster IP`, rule)
}

/** SEP: an endpoint that remembers its clients; SVC and SVL share it. */
function endpointChains(plan: Plan): readonly DesiredChain[] {
  const { route, name, protocol } = plan
  const chains = new Map<string, DesiredChain>()
  for (const backend of [...route.clusterBackends, ...route.localBackends]) {
    const chain = endpointChain(name, protocol, backend)
    const rule = commented(plan, name, {
      protocol,
      recent: { list: chain, action: 'set' },
      target: dnat(backend),
    })
    chains.set(chain, { table: 'nat', chain, rules: [rule] })
  }
  return [...chains.values()]
}

/** The action for packets to a frontend. */
interface Action {
  readonly text: string
  readonly target: XtTarget
}

function addClusterIP(plan: Plan, frontends: DesiredFrontend[]): void {
  const { route, name, internal } = plan
  const { clusterIP } = route
  if (clusterIP === undefined) return
  if (internal === undefined) {
    const refused = refusal(plan, 'internal')
    frontends.push(addressFrontend(plan, dispatchChains.refusedServices, clusterIP, refused))
    return
  }
  const action = { text: `${name} cluster IP`, target: jump(internal) }
  frontends.push(addressFrontend(plan, dispatchChains.services, clusterIP, action))
}

function addExternalIP(plan: Plan, address: IpAddress, frontends: DesiredFrontend[]): void {
  const action = { text: `${plan.name} external IP`, target: jump(plan.chains.external) }
  addOutside(plan, { address, action }, frontends)
}

function addLoadBalancerIP(plan: Plan, address: IpAddress, frontends: DesiredFrontend[]): void {
  const { name, chains, usesFirewall } = plan
  const chain = usesFirewall ? chains.firewall : chains.external
  addOutside(plan, { address, action: { text: `${name} loadbalancer IP`, target: jump(chain) } }, frontends)
  if (!usesFirewall) return
  const text = `${name} traffic not accepted by ${chains.firewall}`
  const drop: Action = { text, target: { kind: 'drop' } }
  frontends.push(addressFrontend(plan, dispatchChains.firewall, address, drop))
}

/** The frontends of an address for outside traffic: the action, and the refusal of packets that no endpoint may serve. */
function addOutside(
  plan: Plan,
  { address, action }: { readonly address: IpAddress; readonly action: Action },
  frontends: DesiredFrontend[],
): void {
  if (plan.usesExternal) frontends.push(addressFrontend(plan, dispatchChains.services, address, action))
  if (plan.external !== undefined) return
  const refused = refusal(plan, 'external')
  frontends.push(addressFrontend(plan, dispatchChains.refusedExternal, address, refused))
}

function addNodePort(plan: Plan, frontends: DesiredFrontend[]): void {
  const { route, name, chains, protocol } = plan
  const frontend: Frontend = { kind: 'node-port', protocol, port: route.nodePort }
  const match = portMatch(frontend)
  if (plan.usesExternal) {
    const rule = commented(plan, name, { ...match, target: jump(chains.external) })
    frontends.push({ dispatch: dispatchChains.nodePorts, frontend, rules: [rule] })
  }
  if (plan.external === undefined) {
    const { text, target } = refusal(plan, 'external')
    const rule = commented(plan, text, { ...match, addressType: { of: 'destination' }, target })
    frontends.push({ dispatch: dispatchChains.refusedExternal, frontend, rules: [rule] })
  }
}

/**
 * The load balancer may check this node's health regardless of the firewall. The whole Service has one frontend, as all of its
 * ports need the same rule.
 */
function healthCheckFrontend(plan: Plan): DesiredFrontend {
  const { healthCheckNodePort, service } = plan.route
  const frontend: Frontend = { kind: 'health-check', protocol: 'tcp', port: healthCheckNodePort }
  const match = { ...portMatch(frontend), target: { kind: 'accept' } } as const
  const rule = commented(plan, `${service} health check node port`, match)
  return { dispatch: dispatchChains.healthChecks, frontend, rules: [rule] }
}

/** The action for a frontend that must not serve by `verdictOf`. */
function refusal(plan: Plan, side: 'internal' | 'external'): Action {
  return verdictOf(plan.route, side) === 'drop'
    ? { text: `${plan.name} has no local endpoints`, target: { kind: 'drop' } }
    : { text: `${plan.name} has no endpoints`, target: { kind: 'reject' } }
}

function addressFrontend(
  plan: Plan,
  dispatch: DispatchChain,
  address: IpAddress,
  { text, target }: Action,
): DesiredFrontend {
  const { protocol } = plan
  const { port } = plan.route
  const frontend: Frontend = { kind: 'address', address, protocol, port }
  const rule = { destination: host(plan, address), ...portMatch(frontend), target }
  return { dispatch, frontend, rules: [commented(plan, text, rule)] }
}

function portMatch({ protocol, port }: Frontend): Pick<XtRule, 'protocol' | 'destinationPorts'> {
  return { protocol, destinationPorts: [port, port] }
}

/** The rule for traffic that the detector takes for local, or for all other traffic. */
function withSource(
  rule: Pick<XtRule, 'destination' | 'target'>,
  detector: NonNullable<IptablesModeSettings['localDetector']>,
  { isInverted }: { readonly isInverted: boolean },
): XtRule {
  if (detector.kind === 'interface') return { inInterface: { name: detector.name, isInverted }, ...rule }
  const { address, prefixLength } = detector.cidr
  return { source: { address, prefixLength, isInverted }, ...rule }
}

function commented(plan: Plan, text: string, rule: XtRule): XtRule {
  return plan.settings.withComments ? { comment: text, ...rule } : rule
}

function jump(chain: string): { readonly kind: 'jump'; readonly chain: string } {
  return { kind: 'jump', chain }
}

function dnat({ address, port }: Backend) {
  return { kind: 'dnat', address, port } as const
}

function host(plan: Plan, address: IpAddress): XtNetwork {
  return { address, prefixLength: hostPrefixLength(plan.settings.family) }
}

function networkOf({ address, prefixLength }: Cidr): XtNetwork {
  return { address, prefixLength }
}
