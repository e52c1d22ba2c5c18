// Frontends that a service port does not get, as the node itself needs their addresses and ports, or as they are node ports or health
// check ports of another Service (docs/adr/0007).
import { apiServerService, isLoopback, type ProtectedPlaces, type ServedPlace } from '../node/index.js'
import { hasAddress, type IpAddress } from '../address.js'
import { type Endpoint, seniorityReason, type ServicePort, type ServiceView } from '../model/index.js'
import { compareStandings, type Standing } from './frontend-owners.js'
import { addressOf, type Frontend, frontendsOf } from './frontend.js'
import { type Route, route, withoutFrontends } from './route.js'
import type { NodeView } from './endpoints.js'

/** The owner of a frontend that a service port does not get. */
interface Holder {
  /** A server (`the API server`, `the agent's healthz server`), or a Service. */
  readonly kind: 'server' | 'service'
  /** The name of the server; the key of the service port with this node port or health check port; or the Service, for a health check port. */
  readonly name: string
  /** Why the holder has the frontend: a clause that follows its name and a comma. */
  readonly reason: string
}

/** The reasons of holders, as in `Holder`. `elsewhere`: docs/adr/0028. */
export const holderReasons = {
  server: 'whose place no Service may take',
  nodePort: 'whose node port it is',
  healthCheck: 'whose health check port it is',
  elsewhere: 'and this mode makes no such address local',
} as const

/** A frontend that a service port does not get. */
export interface LeftOutFrontend {
  readonly frontend: Frontend
  readonly holder: Holder
}

/** Addresses and ports that are taken on this node. */
export interface Taken {
  readonly places: ProtectedPlaces
  /** All service ports of the family: their node ports and health check ports are taken at every address of the machine. */
  readonly services: Pick<ServiceView, 'withNodePort' | 'withHealthCheckPort' | 'healthCheckOwner'>
}

type Claimer = Pick<ServicePort, 'service' | 'protocol' | 'clusterIP' | 'createdSeconds'>
type Port = Claimer & Pick<ServicePort, 'healthCheckNodePort'> & Parameters<typeof frontendsOf>[0]

const none: readonly LeftOutFrontend[] = []

/**
 * The owner of the frontend's address and port, if these are taken; undefined: the service port may have it. Only default/kubernetes, which
 * the API server keeps, may have all. `machine`: this machine's addresses, the VIPs of Services left out.
 */
export function holderOf(
  frontend: Frontend,
  port: Claimer,
  { places, services }: Taken,
  machine: readonly IpAddress[],
): Holder | undefined {
  if (port.service === apiServerService) return undefined
  const isLocal = (own: IpAddress): boolean => isLoopback(own) || hasAddress(machine, own)
  const server = frontend.protocol === 'tcp' ? serverAt(frontend, places, isLocal) : undefined
  if (server !== undefined) return { kind: 'server', name: server, reason: holderReasons.server }
  if (frontend.kind === 'health-check') return healthCheckHolder(port, frontend.port, services)
  const address = addressOf(frontend)
  // A cluster IP is allocated too.
  if (address === undefined || address === port.clusterIP) return undefined
  const holder = nodePortHolder(port, frontend.port, services)
  return holder !== undefined && isLocal(address) ? holder : undefined
}

/** Names the server that has the frontend's address and TCP port. */
function serverAt(
  frontend: Frontend,
  { apiServer, agent }: ProtectedPlaces,
  isLocal: (own: IpAddress) => boolean,
): string | undefined {
  const address = addressOf(frontend)
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

/** The owner of the node port or health check port with this number; undefined: none, or the Service itself. */
function nodePortHolder(
  { service, protocol }: Pick<Claimer, 'service' | 'protocol'>,
  number: number,
  services: Taken['services'],
): Holder | undefined {
  const nodePort = firstOf(services.withNodePort(protocol, number))
  if (nodePort !== undefined && nodePort.service !== service)
    return { kind: 'service', name: nodePort.key, reason: holderReasons.nodePort }
  const healthCheck = protocol === 'TCP' ? firstOf(services.withHealthCheckPort(number)) : undefined
  if (healthCheck === undefined || healthCheck.service === service) return undefined
  return { kind: 'service', name: healthCheck.key, reason: holderReasons.healthCheck }
}

/** The other Service that owns the health check port; undefined: the Service itself. A port of one Service has the check for all of them. */
function healthCheckHolder(
  { service, createdSeconds }: Pick<Claimer, 'service' | 'createdSeconds'>,
  number: number,
  services: Pick<Taken['services'], 'healthCheckOwner'>,
): Holder | undefined {
  const owner = services.healthCheckOwner(number)
  if (owner === undefined || owner.service === service) return undefined
  return { kind: 'service', name: owner.service, reason: seniorityReason(owner, { service, createdSeconds }) }
}

/** The service port that owns the node port or health check port that all of these have. */
function firstOf(ports: readonly ServicePort[]): ServicePort | undefined {
  if (ports.length < 2) return ports[0]
  return ports.toSorted((a, b) => compareStandings(nodePortStanding(a), nodePortStanding(b)))[0]
}

function nodePortStanding({ key, service, createdSeconds }: ServicePort): Standing {
  return { route: key, origin: 'allocated', service, createdSeconds }
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

/** The decision on one service port. */
export interface Decision {
  /** undefined: the node serves nothing of the service port. */
  readonly route: Route | undefined
  /** The frontends that it does not get, its health check port included. */
  readonly leftOut: readonly LeftOutFrontend[]
  /** `leftOut` may depend on the addresses of the machine. */
  readonly dependsOnMachine: boolean
}

/** Decides on one service port. `endpoints` are as for `route`, `machine` as for `holderOf`. */
export function decide(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  node: NodeView,
  { taken, machine }: { readonly taken: Taken; readonly machine: readonly IpAddress[] },
): Decision {
  const whole = route(port, endpoints, node)
  if (!mayBeLeftOut(port, taken)) return { route: whole, leftOut: none, dependsOnMachine: false }
  const leftOut = leftOutFrontends(port, taken, machine)
  return { route: routeWithout(whole, leftOut), leftOut, dependsOnMachine: dependsOnMachine(port, taken) }
}

/** The frontends of the service port that it does not get, its health check port included. */
export function leftOutFrontends(
  port: Port,
  taken: Taken,
  machine: readonly IpAddress[],
): readonly LeftOutFrontend[] {
  if (!mayBeLeftOut(port, taken)) return none
  const found: LeftOutFrontend[] = []
  for (const frontend of allFrontendsOf(port)) {
    const holder = holderOf(frontend, port, taken, machine)
    if (holder !== undefined) found.push({ frontend, holder })
  }
  return found
}

/** Whether `leftOutFrontends` may depend on the addresses of the machine. */
export function dependsOnMachine(port: Port, taken: Taken): boolean {
  if (!mayBeLeftOut(port, taken)) return false
  const { apiServer, agent } = taken.places
  const isOfNodePort = meetsNodePort(port, taken.services)
  return allFrontendsOf(port).some((frontend) => {
    const address = addressOf(frontend)
    const isAtApiServer = address === undefined && apiServer.some((place) => place.port === frontend.port)
    const isExternal = address !== undefined && address !== port.clusterIP
    return (
      (isOfNodePort && isExternal) || isAtApiServer || agent.some((place) => place.port === frontend.port)
    )
  })
}

/** The route without these frontends. undefined: its cluster IP is one of them, and the node serves nothing of the service port. */
export function routeWithout(decided: Route, leftOut: readonly LeftOutFrontend[]): Route | undefined {
  if (leftOut.length === 0) return decided
  const served = withoutFrontends(
    decided,
    leftOut.map(({ frontend }) => frontend),
  )
  return served.clusterIP === decided.clusterIP ? served : undefined
}

/** A quick test of the numbers alone: nearly no service port has one of them. */
function mayBeLeftOut(claimer: Port, { places, services }: Taken): boolean {
  const { protocol, service, port, nodePort, healthCheckNodePort } = claimer
  if (service === apiServerService) return false
  const isMet = (place: { readonly port: number }): boolean =>
    (protocol === 'TCP' && (place.port === port || place.port === nodePort)) ||
    place.port === healthCheckNodePort
  return (
    places.apiServer.some(isMet) ||
    places.agent.some(isMet) ||
    meetsNodePort(claimer, services) ||
    meetsHealthCheck(claimer, services)
  )
}

/** Whether another Service owns the health check port. */
function meetsHealthCheck(port: Port, services: Taken['services']): boolean {
  const { healthCheckNodePort } = port
  return healthCheckNodePort !== 0 && healthCheckHolder(port, healthCheckNodePort, services) !== undefined
}

/** Whether the service port has external frontends with the number of another Service's node port or health check port. */
function meetsNodePort(port: Port, services: Taken['services']): boolean {
  const isExternal = port.externalIPs.length > 0 || port.loadBalancerIPs.length > 0
  return isExternal && nodePortHolder(port, port.port, services) !== undefined
}

function allFrontendsOf(port: Port): readonly Frontend[] {
  const { healthCheckNodePort } = port
  if (healthCheckNodePort === 0) return frontendsOf(port)
  return [...frontendsOf(port), { kind: 'health-check', protocol: 'tcp', port: healthCheckNodePort }]
}
