// Route → the endpoints and the listeners that the relay gets for it. Pure.
import { type Cidr, cidrContains, familyOf, hasAddress, type IpAddress } from '../../../address.js'
import {
  hostPrefixLength,
  type RelayListener,
  type RelayProtocol,
  type RelayService,
  type RelayVerdict,
} from '../../../kernel/index.js'
import { type Frontend, frontendsOf, type Route, verdictOf } from '../../../routing/index.js'

/** The facts about this node that a route is compiled with. */
export interface RelayRouteSettings {
  /** The addresses of this machine that serve node ports. */
  readonly nodePortAddresses: readonly IpAddress[]
  /** Every address of this machine serves node ports, one that it gets later too. */
  readonly servesAllAddresses: boolean
  /** This node's address of the family; undefined: not known. */
  readonly nodeIP: IpAddress | undefined
}

/** A listener without its service, which the table knows. */
export type DesiredListener = Omit<RelayListener, 'service'>

/** A frontend with its listeners: one for each address of a node port; none where connections are refused. */
export interface DesiredFrontend {
  readonly frontend: Frontend
  readonly listeners: readonly DesiredListener[]
  /** One socket on all addresses can take the place of the listeners. */
  readonly isOnAllAddresses: boolean
}

export interface DesiredRoute {
  /** Unix seconds of the Service's creation; undefined: unknown. */
  readonly createdSeconds: number | undefined
  readonly service: Omit<RelayService, 'id'>
  readonly frontends: readonly DesiredFrontend[]
}

/**
 * All frontends of the route. A frontend whose connections are refused or dropped from everywhere has no listener: the kernel answers with
 * a reset or an ICMP error, as the address is local. While endpoints keep UDP flows (F-071), the listener stays for these. SCTP has no
 * listeners.
 */
export function compileRoute(route: Route, settings: RelayRouteSettings): DesiredRoute {
  return compiled(route, settings, frontendsOf(route))
}

/** The node port of the route alone. */
export function compileNodePort(route: Route, settings: RelayRouteSettings): DesiredRoute {
  return compiled(
    route,
    settings,
    frontendsOf(route).filter(({ kind }) => kind === 'node-port'),
  )
}

function compiled(route: Route, settings: RelayRouteSettings, frontends: readonly Frontend[]): DesiredRoute {
  const { affinitySeconds, clusterBackends, localBackends, flowBackends } = route
  return {
    createdSeconds: route.createdSeconds,
    service: {
      affinitySeconds: affinitySeconds === 0 ? undefined : affinitySeconds,
      clusterEndpoints: clusterBackends,
      localEndpoints: localBackends,
      flowEndpoints: flowBackends,
      sourceRanges: sourceRangesOf(route, settings.nodeIP),
    },
    frontends: frontends.map((frontend) => ({
      frontend,
      listeners: listenersOf(route, frontend, settings),
      isOnAllAddresses: frontend.kind === 'node-port' && settings.servesAllAddresses,
    })),
  }
}

/** F-056: a node whose address is in a range may also come from the load balancer's own addresses. */
function sourceRangesOf(
  { sourceRanges, loadBalancerIPs }: Route,
  nodeIP: IpAddress | undefined,
): readonly Cidr[] {
  if (nodeIP === undefined || !sourceRanges.some((range) => cidrContains(range, nodeIP))) return sourceRanges
  return [...sourceRanges, ...loadBalancerIPs.map(hostCidr)]
}

/** The network of one address. */
export function hostCidr(address: IpAddress): Cidr {
  const family = familyOf(address)
  return { family, address, prefixLength: hostPrefixLength(family) }
}

function listenersOf(
  route: Route,
  frontend: Frontend,
  { nodePortAddresses }: RelayRouteSettings,
): readonly DesiredListener[] {
  const protocol = relayProtocolOf(route)
  if (protocol === undefined) return []
  const isInternal = frontend.kind === 'address' && frontend.address === route.clusterIP
  const far = verdictFor(route, isInternal ? 'internal' : 'external')
  // F-051: this node and its own pods reach external frontends through the endpoints of the whole cluster.
  const near = isInternal ? far : nearVerdict(route)
  if (!takesNewClients({ near, far }) && route.flowBackends.length === 0) return []
  const hasSourceRanges =
    frontend.kind === 'address' &&
    route.sourceRanges.length > 0 &&
    hasAddress(route.loadBalancerIPs, frontend.address)
  const addresses = frontend.kind === 'address' ? [frontend.address] : nodePortAddresses
  return addresses.map((address) => ({
    protocol,
    address,
    port: frontend.port,
    near,
    far,
    hasSourceRanges,
  }))
}

/** undefined: the relay does not serve the protocol. */
export function relayProtocolOf({ protocol }: Pick<Route, 'protocol'>): RelayProtocol | undefined {
  if (protocol === 'TCP') return 'tcp'
  return protocol === 'UDP' ? 'udp' : undefined
}

function verdictFor(route: Route, side: 'internal' | 'external'): RelayVerdict {
  const verdict = verdictOf(route, side)
  if (verdict !== 'serve') return verdict
  return (side === 'internal' ? route.isInternalLocal : route.isExternalLocal) ? 'local' : 'cluster'
}

function nearVerdict({ clusterBackends }: Route): RelayVerdict {
  return clusterBackends.length > 0 ? 'cluster' : 'refuse'
}

/** False: the listener only keeps the UDP flows that it has. */
export function takesNewClients({ near, far }: Pick<RelayListener, 'near' | 'far'>): boolean {
  return isServed(near) || isServed(far)
}

/** Connections go to endpoints. */
export function isServed(verdict: RelayVerdict): boolean {
  return verdict === 'cluster' || verdict === 'local'
}
