import type { IpAddress } from '../address.js'
import type { Endpoint, ServicePort } from '../model/index.js'
import type { Frontend } from './frontend.js'
import {
  endpointsOfFlows,
  hasAnyEndpoint,
  type NodeView,
  usableClusterEndpoints,
  usableLocalEndpoints,
  endpointRules,
  type EndpointRule,
  type NoteStep,
} from './endpoints.js'

export interface Backend {
  readonly address: IpAddress
  readonly port: number
  /** undefined: not known. */
  readonly nodeName?: string | undefined
}

/**
 * One service port with its frontends and its chosen backends: all that a proxy mode needs to know. Every list of backends
 * is in bytewise order of `address:port` (F-031), and holds the endpoints themselves: copies would be a tenth of the heap.
 */
export interface Route extends ServicePort {
  /** For traffic under policy Cluster (F-032). Also empty if this port has no such traffic (F-015). */
  readonly clusterBackends: readonly Backend[]
  /** For traffic under policy Local (F-033). Also empty if this port has no such traffic (F-016). */
  readonly localBackends: readonly Backend[]
  /**
   * False: no node has an endpoint that may take traffic, and connections are refused. True with empty `localBackends`: only other
   * nodes have one, and connections under policy Local are dropped (F-034).
   */
  readonly hasEndpoints: boolean
  /** UDP only: the backends that keep their flows (`endpointsOfFlows`). Empty for other protocols. */
  readonly flowBackends: readonly Backend[]
  /** Node of each endpoint whose node is known, by address. Empty unless the Service has weights. */
  readonly backendNodes: ReadonlyMap<IpAddress, string>
  /** Where node ports are served address by address: those at which another service port has the number. Absent: none. */
  readonly nodePortLostAt?: readonly IpAddress[]
}

/** Observers of the steps by which `route` chooses the endpoints of each list. */
interface RouteNotes {
  readonly cluster: NoteStep
  readonly local: NoteStep
  readonly flows: NoteStep
}

const noBackends: readonly Backend[] = []
const nowhere: ReadonlyMap<IpAddress, string> = new Map()

/**
 * Decides which endpoints take the traffic of this service port on this node. The endpoints come in bytewise order of
 * `address:port`. `explainRoute` passes `notes` to learn the reasons.
 */
export function route(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  node: NodeView,
  notes?: RouteNotes,
): Route {
  // F-015: pods and the node itself reach external frontends through the endpoints of the whole cluster, under any policy.
  const usesCluster = !port.isInternalLocal || port.isExternallyAccessible
  const usesLocal = port.isInternalLocal || (port.isExternalLocal && port.isExternallyAccessible)
  const clusterBackends = usesCluster
    ? usableClusterEndpoints(endpoints, node, notes?.cluster)
    : unused(endpoints, endpointRules.noCluster, notes?.cluster)
  const localBackends = usesLocal
    ? usableLocalEndpoints(endpoints, node, notes?.local)
    : unused(endpoints, endpointRules.noLocal, notes?.local)
  const hasEndpoints = clusterBackends.length > 0 || (usesLocal && hasAnyEndpoint(endpoints))
  const flowBackends = port.protocol === 'UDP' ? endpointsOfFlows(endpoints, notes?.flows) : noBackends
  const backendNodes = port.scheduling.weights === undefined ? nowhere : nodesOf(endpoints)
  // Field by field: V8 makes a literal that spreads a large object many times slower.
  return {
    key: port.key,
    service: port.service,
    portName: port.portName,
    portId: port.portId,
    protocol: port.protocol,
    family: port.family,
    clusterIP: port.clusterIP,
    port: port.port,
    nodePort: port.nodePort,
    externalIPs: port.externalIPs,
    loadBalancerIPs: port.loadBalancerIPs,
    sourceRanges: port.sourceRanges,
    affinitySeconds: port.affinitySeconds,
    isInternalLocal: port.isInternalLocal,
    isExternalLocal: port.isExternalLocal,
    isExternallyAccessible: port.isExternallyAccessible,
    healthCheckNodePort: port.healthCheckNodePort,
    scheduling: port.scheduling,
    createdSeconds: port.createdSeconds,
    clusterBackends,
    localBackends,
    hasEndpoints,
    flowBackends,
    backendNodes,
  }
}

/**
 * The route without these frontends. `nodePortPlaces`: a node port is a frontend at each of these addresses; undefined: it is one
 * frontend.
 */
export function withoutFrontends(
  decided: Route,
  frontends: readonly Frontend[],
  nodePortPlaces?: readonly IpAddress[],
): Route {
  if (frontends.length === 0) return decided
  const { clusterIP, externalIPs, loadBalancerIPs, port } = decided
  let { nodePort, healthCheckNodePort } = decided
  const addresses = new Set<IpAddress>()
  const atNodePort = new Set<IpAddress>()
  for (const frontend of frontends) {
    if (frontend.kind === 'node-port') nodePort = 0
    else if (frontend.kind === 'health-check') healthCheckNodePort = 0
    else {
      if (frontend.port === port) addresses.add(frontend.address)
      if (frontend.port === nodePort) atNodePort.add(frontend.address)
    }
  }
  const nodePortLostAt = nodePortPlaces?.filter((address) => atNodePort.has(address)) ?? []
  if (nodePortLostAt.length > 0 && nodePortLostAt.length === nodePortPlaces?.length) nodePort = 0
  return {
    ...decided,
    clusterIP: clusterIP !== undefined && addresses.has(clusterIP) ? undefined : clusterIP,
    nodePort,
    externalIPs: externalIPs.filter((address) => !addresses.has(address)),
    loadBalancerIPs: loadBalancerIPs.filter((address) => !addresses.has(address)),
    healthCheckNodePort,
    ...(nodePortLostAt.length > 0 && { nodePortLostAt }),
  }
}

/** A list that no traffic of the service port uses. */
function unused(
  endpoints: readonly Endpoint[],
  rule: EndpointRule,
  note: NoteStep | undefined,
): readonly Backend[] {
  note?.(endpoints, () => false, rule)
  return noBackends
}

/** New connections are served, refused with an error, or silently dropped. */
export type Verdict = 'serve' | 'refuse' | 'drop'

type Chosen = Pick<
  Route,
  'isInternalLocal' | 'isExternalLocal' | 'clusterBackends' | 'localBackends' | 'hasEndpoints'
>

/**
 * The verdict on new connections to the cluster IP (`internal`), or on connections from outside to the other frontends (`external`).
 * They are refused if there is no endpoint (F-053), and dropped if policy Local has endpoints on other nodes only (F-054).
 */
export function verdictOf(decided: Chosen, side: 'internal' | 'external'): Verdict {
  const isLocal = side === 'internal' ? decided.isInternalLocal : decided.isExternalLocal
  const backends = isLocal ? decided.localBackends : decided.clusterBackends
  if (backends.length > 0) return 'serve'
  return isLocal && decided.hasEndpoints ? 'drop' : 'refuse'
}

function nodesOf(endpoints: readonly Endpoint[]): ReadonlyMap<IpAddress, string> {
  const nodes = new Map<IpAddress, string>()
  for (const { address, nodeName } of endpoints) if (nodeName !== undefined) nodes.set(address, nodeName)
  return nodes
}
