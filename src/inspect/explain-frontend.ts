// The frontend that a packet is for, and hints when it is for none.
import { cidrContains, type IpAddress } from '../address.js'
import type { ServicePort } from '../model/index.js'
import { isLoopback } from '../node/index.js'
import { addressesOf, type Frontend, frontendProtocols } from '../routing/index.js'
import { isOnMachine, type Packet, type PacketView } from './explain-client.js'
import { leftOutFor, type FrontendOwner } from './conflicts.js'

export type FrontendKind = 'cluster-ip' | 'external-ip' | 'load-balancer-ip' | 'node-port' | 'health-check'

/** The service port that owns the frontend of a packet. */
export interface FoundFrontend {
  readonly port: ServicePort
  readonly kind: FrontendKind
  /** False: the destination does not serve node ports. */
  readonly isServed: boolean
  /** Service ports that claim the frontend too, and lose (ADR 7). */
  readonly losers: readonly ServicePort[]
}

/** A service port that names the frontend of a packet, and does not get it. */
export interface LeftOut extends FrontendOwner {
  readonly port: ServicePort
  readonly kind: FrontendKind
}

/** The service ports that name the frontend of a packet. */
interface NamedFrontend {
  /** undefined: no Service has the destination. */
  readonly found: FoundFrontend | undefined
  readonly leftOut: readonly LeftOut[]
}

/** A frontend with an address comes before a node port. */
export function findFrontend(packet: Packet, view: PacketView): NamedFrontend {
  const isLocal = isOnMachine(packet, view)
  const { protocol, port: number, destination } = packet
  const address: Frontend = { kind: 'address', address: destination, protocol, port: number }
  const nodePortFrontend: Frontend = { kind: 'node-port', protocol, port: number }
  const atAddress: ServicePort[] = []
  const atNodePort: ServicePort[] = []
  const healthChecks: ServicePort[] = []
  for (const port of view.services.servicePorts()) {
    if (packet.protocol === 'tcp' && port.healthCheckNodePort === packet.port) healthChecks.push(port)
    if (frontendProtocols[port.protocol] !== packet.protocol) continue
    if (port.port === packet.port && addressesOf(port).has(packet.destination)) atAddress.push(port)
    if (port.nodePort !== 0 && port.nodePort === packet.port) atNodePort.push(port)
  }
  const leftOut: LeftOut[] = []
  const claimants = (ports: readonly ServicePort[], frontend: Frontend): readonly ServicePort[] =>
    inOrder(ports, frontend, view, leftOut)
  const [first, ...addressLosers] = claimants(atAddress, address)
  if (first !== undefined) {
    const kind = kindOf(first, packet.destination)
    return { found: { port: first, kind, isServed: true, losers: addressLosers }, leftOut }
  }
  if (!isLocal) return { found: undefined, leftOut }
  const isServed = servesNodePorts(packet.destination, view)
  const [nodePort, ...losers] = claimants(atNodePort, nodePortFrontend)
  if (nodePort !== undefined)
    return { found: { port: nodePort, kind: 'node-port', isServed, losers }, leftOut }
  const [healthCheck] = claimants(healthChecks, { kind: 'health-check', protocol: 'tcp', port: number })
  const found = healthCheck && { port: healthCheck, kind: 'health-check' as const, isServed, losers: [] }
  return { found, leftOut }
}

/** F-060 to F-064. */
function servesNodePorts(address: IpAddress, { rules, machine }: PacketView): boolean {
  const { nodePortAddresses, loopbackNodePorts } = rules
  if (loopbackNodePorts.some((network) => cidrContains(network, address))) return true
  if (nodePortAddresses !== 'all') return nodePortAddresses.includes(address)
  return machine.includes(address) && !isLoopback(address)
}

/** Whether the agent itself accepts the connection: no rule of a mode leads the packet to an endpoint, and no mark matters. */
export function isRelayed({ destination }: Packet, { rules }: PacketView): boolean {
  return rules.isRelayed || destination === rules.relayedLoopback
}

function kindOf({ clusterIP, externalIPs }: ServicePort, address: IpAddress): FrontendKind {
  if (address === clusterIP) return 'cluster-ip'
  return externalIPs.includes(address) ? 'external-ip' : 'load-balancer-ip'
}

/** The service ports that may have the frontend, its owner first; none if no pass has given it one. Adds the others to `leftOut`. */
function inOrder(
  ports: readonly ServicePort[],
  frontend: Frontend,
  view: PacketView,
  leftOut: LeftOut[],
): readonly ServicePort[] {
  const { kind } = frontend
  const claimants = ports.filter((port) => {
    const other = leftOutFor(view, port, frontend)
    if (other === undefined) return true
    leftOut.push({ ...other, port, kind: kind === 'address' ? kindOf(port, frontend.address) : kind })
    return false
  })
  // The tracker gives a health check port to a Service as a whole: the ports that are not left out share it.
  if (kind === 'health-check') return claimants.toSorted((a, b) => (a.key < b.key ? -1 : 1))
  const owner = view.ownerOf(frontend)
  const own = claimants.find(({ key }) => key === owner)
  return own === undefined ? [] : [own, ...claimants.filter((port) => port !== own)]
}

/** A Service that has the destination's address, by its ports. */
export interface AddressOwner {
  readonly kind: FrontendKind
  readonly service: string
  readonly ports: readonly string[]
  /** The holder of the address in place of the Service; undefined: the Service has it. */
  readonly holder: string | undefined
}

/** The Services that name the address, with any port. */
export function ownersOfAddress(
  address: IpAddress,
  { services, rules }: PacketView,
): readonly AddressOwner[] {
  const owners = new Map<string, AddressOwner & { readonly ports: string[] }>()
  for (const port of services.servicePorts()) {
    if (!addressesOf(port).has(address)) continue
    const owner = owners.get(port.service) ?? {
      kind: kindOf(port, address),
      service: port.service,
      ports: [],
      holder: rules.foreignHolder?.(port, address),
    }
    owner.ports.push(`${port.port}/${frontendProtocols[port.protocol]}`)
    owners.set(port.service, owner)
  }
  return [...owners.values()]
}

/** Whether the port of an address that Services have, but not at this port, is refused (F-055). */
export function refusesUnusedPort(
  address: IpAddress,
  owners: readonly AddressOwner[],
  view: PacketView,
): boolean {
  if (view.rules.refusedPorts === 'vips') return isVip(address, view)
  const isRefused = view.rules.refusedPorts === 'cluster-ips'
  return isRefused && owners.some(({ kind }) => kind === 'cluster-ip')
}

/** Whether the mode makes the address local to this node, because it serves a Service there. */
export function isVip(address: IpAddress, view: PacketView): boolean {
  if (view.rules.refusedPorts !== 'vips' || view.machine.includes(address)) return false
  for (const port of view.services.servicePorts()) {
    if (!addressesOf(port).has(address)) continue
    const protocol = frontendProtocols[port.protocol]
    const frontend: Frontend = { kind: 'address', address, protocol, port: port.port }
    if (leftOutFor(view, port, frontend) === undefined) return true
  }
  return false
}
