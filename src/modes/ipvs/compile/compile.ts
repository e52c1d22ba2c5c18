// Compiles one route into virtual servers and set entries. Traffic policies mean the same as in iptables mode.
import { cidrContains, hasAddress, type IpAddress } from '../../../address.js'
import type { IpsetEntry, RealServerList, VirtualServerKey } from '../../../kernel/index.js'
import { type Backend, frontendProtocols, type Route, verdictOf } from '../../../routing/index.js'
import {
  type DesiredRoute,
  type DesiredSetEntry,
  type DesiredVirtualServer,
  markAddress,
  type SetKey,
} from '../../../layers/ipvs/index.js'
import type { SchedulingSettings } from './scheduling.js'
import { markedServerSettings, realServersFor, virtualServerSettings } from './server-settings.js'

/** The settings that the virtual servers of all routes depend on, in one IP family. */
export interface IpvsModeSettings extends SchedulingSettings {
  /** Addresses of this node that serve node ports. */
  readonly nodePortAddresses: readonly IpAddress[]
  /** Addresses of this node: a Service with such an address does not make it a VIP. */
  readonly nodeAddresses: ReadonlySet<IpAddress>
  /** The node's primary address, which loadBalancerSourceRanges may allow (F-056). */
  readonly nodeIP: IpAddress | undefined
  /** Bits of the packet mark that firewall marks use. */
  readonly markMask: number
  /** One bit outside of `markMask`: packets that carry it leave with this node's address (F-046). */
  readonly masqueradeMark: number
}

const nodePortSets = {
  TCP: { all: 'nodePortTcp', local: 'nodePortLocalTcp' },
  UDP: { all: 'nodePortUdp', local: 'nodePortLocalUdp' },
  SCTP: { all: 'nodePortSctp', local: 'nodePortLocalSctp' },
} as const satisfies Readonly<Record<Route['protocol'], Readonly<Record<'all' | 'local', SetKey>>>>

/** A frontend of a route before it is a virtual server. */
interface Frontend {
  readonly address: IpAddress
  readonly port: number
  readonly backends: readonly Backend[]
  readonly isBound: boolean
  readonly entries: readonly DesiredSetEntry[]
}

/**
 * The virtual servers of a route: one for each frontend, and with a mark two more, for connections of pods and of the node. The
 * cluster IP's, if there is one, comes first. `mark`: the route's own mark; undefined: it has none, or not `needsMark`.
 */
export function compileRoute(
  route: Route,
  settings: IpvsModeSettings,
  mark: number | undefined,
): readonly DesiredVirtualServer[] {
  const outside = outsideFrontends(route, settings, mark)
  const frontends = [...clusterIPFrontends(route, settings), ...outside]
  const protocol = frontendProtocols[route.protocol]
  const { family } = route
  const serverSettings = virtualServerSettings(route, settings)
  // Nearly always all frontends have the same backends.
  const lists = new Map<readonly Backend[], RealServerList>()
  const listOf = (backends: readonly Backend[]): RealServerList => {
    let list = lists.get(backends)
    if (list === undefined) {
      list = realServersFor(route, backends)
      lists.set(backends, list)
    }
    return list
  }
  const flowBackends = listOf(route.flowBackends)
  const servers = frontends.map(({ address, port, backends, isBound, entries }) => ({
    key: { family, protocol, address, port } satisfies VirtualServerKey,
    protocol,
    settings: serverSettings,
    realServers: listOf(backends),
    flowBackends,
    bindAddress: isBound,
    entries,
  }))
  // Without an outside frontend of this family, nothing would lead to virtual servers by mark, and no entry would record the mark.
  if (mark === undefined || outside.length === 0) return servers
  // IPVS compares the whole mark, and packets of the node also carry the masquerade mark.
  const marked = [mark, mark + settings.masqueradeMark].map((whole) => ({
    key: { family, mark: whole },
    protocol,
    settings: markedServerSettings(route, settings),
    realServers: listOf(route.clusterBackends),
    flowBackends,
    bindAddress: false,
    entries: [{ set: 'marks', entry: { address: markAddress(whole, family) } } as const],
  }))
  return [...servers, ...marked]
}

/** As `compileRoute`: without a mark, and for a mark that is chosen later. */
export function compileDesired(route: Route, settings: IpvsModeSettings): DesiredRoute {
  return {
    servers: compileRoute(route, settings, undefined),
    withMark: (mark) => compileRoute(route, settings, mark),
  }
}

/** One frontend; none without a cluster IP. */
function clusterIPFrontends(route: Route, settings: IpvsModeSettings): readonly Frontend[] {
  const { clusterIP: address, port, isInternalLocal } = route
  if (address === undefined) return []
  const backends = isInternalLocal ? route.localBackends : route.clusterBackends
  const own = entryOf(route, address, port)
  const entries: DesiredSetEntry[] = [{ set: 'clusterIP', entry: own }]
  const verdict = verdictOf(route, 'internal')
  if (verdict !== 'serve') entries.push({ set: verdict === 'drop' ? 'dropped' : 'refused', entry: own })
  entries.push(...healthCheckEntries(route))
  return [bound({ address, port, backends, entries }, settings)]
}

/** External IPs, load-balancer IPs and node ports. */
function outsideFrontends(
  route: Route,
  settings: IpvsModeSettings,
  mark: number | undefined,
): readonly Frontend[] {
  const { clusterIP, externalIPs, loadBalancerIPs, nodePort, nodePortLostAt = [] } = route
  const frontends: Frontend[] = []
  for (const address of externalIPs)
    if (!hasAddress(loadBalancerIPs, address))
      frontends.push(externalIPFrontend(route, settings, mark, address))
  for (const address of loadBalancerIPs) frontends.push(loadBalancerFrontend(route, settings, mark, address))
  if (nodePort !== 0)
    for (const address of settings.nodePortAddresses)
      if (!hasAddress(nodePortLostAt, address))
        frontends.push(nodePortFrontend(route, settings, mark, address))
  const healthCheck = clusterIP === undefined ? healthCheckEntries(route) : []
  if (healthCheck.length === 0) return frontends
  return frontends.map((frontend) => ({ ...frontend, entries: [...frontend.entries, ...healthCheck] }))
}

/** The health check port of the Service: the cluster IP's frontend holds it. Without a cluster IP each other frontend does. */
function healthCheckEntries({ healthCheckNodePort: port }: Route): readonly DesiredSetEntry[] {
  return port === 0 ? [] : [{ set: 'healthCheckNodePort', entry: { port } }]
}

function externalIPFrontend(
  route: Route,
  settings: IpvsModeSettings,
  mark: number | undefined,
  address: IpAddress,
): Frontend {
  const { port } = route
  const entries: DesiredSetEntry[] = [
    { set: externalIPSet(route), entry: entryOf(route, address, port) },
    ...policyEntries(route, settings, mark, { address, port }),
  ]
  return bound({ address, port, backends: externalBackends(route), entries }, settings)
}

function externalIPSet({ isExternalLocal }: Route): SetKey {
  return isExternalLocal ? 'externalIPLocal' : 'externalIP'
}

/** The frontend of a load-balancer IP. If it is an external IP too, the source ranges still hold (F-056). */
function loadBalancerFrontend(
  route: Route,
  settings: IpvsModeSettings,
  mark: number | undefined,
  address: IpAddress,
): Frontend {
  const { port, isExternalLocal } = route
  const own = entryOf(route, address, port)
  const entries: DesiredSetEntry[] = [{ set: 'loadBalancer', entry: own }]
  if (isExternalLocal) entries.push({ set: 'loadBalancerLocal', entry: own })
  if (hasAddress(route.externalIPs, address)) entries.push({ set: externalIPSet(route), entry: own })
  entries.push(
    ...sourceEntries(route, settings, own),
    ...policyEntries(route, settings, mark, { address, port }),
  )
  return bound({ address, port, backends: externalBackends(route), entries }, settings)
}

function nodePortFrontend(
  route: Route,
  settings: IpvsModeSettings,
  mark: number | undefined,
  address: IpAddress,
): Frontend {
  const { nodePort: port, isExternalLocal, protocol } = route
  const sets = nodePortSets[protocol]
  const own = protocol === 'SCTP' ? entryOf(route, address, port) : { port }
  const entries: DesiredSetEntry[] = [{ set: sets.all, entry: own }]
  if (isExternalLocal) entries.push({ set: sets.local, entry: own })
  entries.push(...policyEntries(route, settings, mark, { address, port }))
  return {
    address,
    port,
    backends: externalBackends(route),
    entries,
    isBound: false,
  }
}

/**
 * The backends of an external frontend's own virtual server, the same as in kube-proxy (F-052). Packets without a mark reach them,
 * above all those from outside.
 */
function externalBackends({ isExternalLocal, clusterBackends, localBackends }: Route): readonly Backend[] {
  return isExternalLocal && localBackends.length > 0 ? localBackends : clusterBackends
}

/** Entries that lead pods and the node to the frontend's mark, and entries that refuse or drop packets if there are no endpoints. */
function policyEntries(
  route: Route,
  { markMask }: IpvsModeSettings,
  mark: number | undefined,
  { address, port }: Pick<Frontend, 'address' | 'port'>,
): readonly DesiredSetEntry[] {
  const entry = entryOf(route, address, port)
  const entries: DesiredSetEntry[] = []
  if (mark !== undefined)
    entries.push({ set: 'marked', entry: { ...entry, mark: { value: mark, mask: markMask } } })
  const verdict = verdictOf(route, 'external')
  if (verdict !== 'serve') entries.push({ set: verdict === 'drop' ? 'droppedOutside' : 'refused', entry })
  return entries
}

/** F-056. Without endpoints all clients are refused. */
function sourceEntries(
  { sourceRanges, clusterBackends, localBackends }: Route,
  { nodeIP }: IpvsModeSettings,
  own: HostEntry,
): readonly DesiredSetEntry[] {
  if (sourceRanges.length === 0 || clusterBackends.length + localBackends.length === 0) return []
  const entries: DesiredSetEntry[] = [{ set: 'loadBalancerGuarded', entry: own }]
  for (const { address, prefixLength } of sourceRanges)
    entries.push({ set: 'loadBalancerSources', entry: { ...own, secondAddress: address, prefixLength } })
  // Packets of the node itself to a VIP have the VIP as their source if an interface has the VIP.
  if (nodeIP !== undefined && sourceRanges.some((range) => cidrContains(range, nodeIP)))
    entries.push({ set: 'loadBalancerOwnSource', entry: { ...own, secondAddress: own.address } })
  return entries
}

interface HostEntry extends IpsetEntry {
  readonly address: IpAddress
}

function entryOf({ protocol }: Route, address: IpAddress, port: number): HostEntry {
  return { address, protocol: frontendProtocols[protocol], port }
}

/** A frontend whose address is bound, unless it is the node's own. Adds the VIP to `entries`, which the frontend keeps. */
function bound(
  frontend: Omit<Frontend, 'isBound'> & { readonly entries: DesiredSetEntry[] },
  { nodeAddresses }: IpvsModeSettings,
): Frontend {
  const { address, entries } = frontend
  const isBound = !nodeAddresses.has(address)
  if (isBound) entries.push({ set: 'vips', entry: { address } })
  return { ...frontend, isBound }
}
