// Frontends that no Service gets, as the node itself needs their addresses and ports (docs/adr/0007).
import { apiServerService, isLoopback, type ProtectedPlaces, type ServedPlace } from '../node/index.js'
import type { IpAddress } from '../address.js'
import type { ServicePort } from '../model/index.js'
import { addressOf, describeFrontend, type Frontend, frontendsOf } from './frontend.js'
import type { Route } from './route.js'

/** A frontend that a service port does not get. */
export interface LeftOutFrontend {
  readonly frontend: Frontend
  /** The owner of its address and port: `the API server`, `the agent's healthz server`. */
  readonly holder: string
}

type Port = Pick<ServicePort, 'service' | 'healthCheckNodePort'> & Parameters<typeof frontendsOf>[0]

const none: readonly LeftOutFrontend[] = []

/**
 * Names the owner of the frontend's address and port that the node protects; undefined: the Service `namespace/name` may have it.
 * Only default/kubernetes, which the API server keeps, may have all. `machine`: this machine's addresses, the VIPs of Services left out.
 */
export function holderOf(
  frontend: Frontend,
  service: string,
  { apiServer, agent }: ProtectedPlaces,
  machine: readonly IpAddress[],
): string | undefined {
  if (frontend.protocol !== 'tcp' || service === apiServerService) return undefined
  const address = addressOf(frontend)
  const isLocal = (own: IpAddress): boolean => isLoopback(own) || machine.includes(own)
  for (const place of apiServer) {
    if (place.port !== frontend.port) continue
    // A node port is a port of every address of the machine.
    if (address === undefined ? isLocal(place.address) : place.address === address) return 'the API server'
  }
  for (const { server, address: served, port } of agent) {
    if (port !== frontend.port) continue
    if (covers(served, address, isLocal)) return `the agent's ${server} server`
  }
  return undefined
}

/** Whether a server at these addresses has the frontend's address. A node port (undefined) is a port of every address of the machine. */
function covers(
  served: ServedPlace['address'],
  frontend: IpAddress | undefined,
  isLocal: (own: IpAddress) => boolean,
): boolean {
  if (served === 'every frontend') return true
  if (served === 'all') return frontend === undefined || isLocal(frontend)
  return frontend === undefined ? isLocal(served) : served === frontend
}

/** The frontends of the service port that it does not get, its health check port included. */
export function leftOutFrontends(
  port: Port,
  places: ProtectedPlaces,
  machine: readonly IpAddress[],
): readonly LeftOutFrontend[] {
  if (!mayBeLeftOut(port, places)) return none
  const found: LeftOutFrontend[] = []
  for (const frontend of allFrontendsOf(port)) {
    const holder = holderOf(frontend, port.service, places, machine)
    if (holder !== undefined) found.push({ frontend, holder })
  }
  return found
}

/** Whether `leftOutFrontends` may depend on the addresses of the machine. */
export function dependsOnMachine(port: Port, places: ProtectedPlaces): boolean {
  if (!mayBeLeftOut(port, places)) return false
  const { apiServer, agent } = places
  return allFrontendsOf(port).some((frontend) => {
    const isOfNode = addressOf(frontend) === undefined
    const isAtApiServer = isOfNode && apiServer.some((place) => place.port === frontend.port)
    return isAtApiServer || agent.some((place) => place.port === frontend.port)
  })
}

/** The route without these frontends. undefined: the cluster IP is one of them, and the node serves nothing of the service port. */
export function routeWithout(decided: Route, leftOut: readonly LeftOutFrontend[]): Route | undefined {
  if (leftOut.length === 0) return decided
  const names = new Set(leftOut.map(({ frontend }) => describeFrontend(frontend)))
  const kept = frontendsOf(decided).filter((frontend) => !names.has(describeFrontend(frontend)))
  const addresses = new Set(kept.map(addressOf))
  if (!addresses.has(decided.clusterIP)) return undefined
  const isHealthCheckKept = !leftOut.some(({ frontend }) => frontend.kind === 'health-check')
  return {
    ...decided,
    nodePort: addresses.has(undefined) ? decided.nodePort : 0,
    externalIPs: decided.externalIPs.filter((address) => addresses.has(address)),
    loadBalancerIPs: decided.loadBalancerIPs.filter((address) => addresses.has(address)),
    healthCheckNodePort: isHealthCheckKept ? decided.healthCheckNodePort : 0,
  }
}

/** A quick test of the numbers alone: nearly no service port has one of them. */
function mayBeLeftOut(
  { protocol, service, port, nodePort, healthCheckNodePort }: Port,
  { apiServer, agent }: ProtectedPlaces,
): boolean {
  if (service === apiServerService) return false
  const isMet = (place: { readonly port: number }): boolean =>
    (protocol === 'TCP' && (place.port === port || place.port === nodePort)) ||
    place.port === healthCheckNodePort
  return apiServer.some(isMet) || agent.some(isMet)
}

function allFrontendsOf(port: Port): readonly Frontend[] {
  const { healthCheckNodePort } = port
  if (healthCheckNodePort === 0) return frontendsOf(port)
  return [...frontendsOf(port), { kind: 'health-check', protocol: 'tcp', port: healthCheckNodePort }]
}
