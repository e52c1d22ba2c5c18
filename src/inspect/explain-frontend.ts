// The frontend that a packet is for, and hints when it is for none.
import { cidrContains, type IpAddress } from '../address.js'
import type { PacketRules } from '../engine/index.js'
import type { ServicePort } from '../model/index.js'
import { isLoopback } from '../node/index.js'
import {
  addressesOf,
  compareStandings,
  type Frontend,
  frontendProtocols,
  holderOf,
  standingOf,
} from '../routing/index.js'
import type { Packet, PacketView } from './explain-client.js'

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

/** undefined: no Service has the destination. A frontend with an address comes before a node port. */
export function findFrontend(packet: Packet, view: PacketView): FoundFrontend | undefined {
  const isLocal = view.machine.includes(packet.destination) || isLoopback(packet.destination)
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
  const [first, ...addressLosers] = inOrder(atAddress, address, view)
  if (first !== undefined) {
    const kind = kindOf(first, packet.destination)
    return { port: first, kind, isServed: true, losers: addressLosers }
  }
  if (!isLocal) return undefined
  const isServed = servesNodePorts(packet.destination, view)
  const [nodePort, ...losers] = inOrder(atNodePort, nodePortFrontend, view)
  if (nodePort !== undefined) return { port: nodePort, kind: 'node-port', isServed, losers }
  const [healthCheck] = inOrder(healthChecks, { kind: 'health-check', protocol: 'tcp', port: number }, view)
  if (healthCheck === undefined) return undefined
  return { port: healthCheck, kind: 'health-check', isServed, losers: [] }
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

/** The service ports that may have the frontend; the first one owns it. */
function inOrder(
  ports: readonly ServicePort[],
  frontend: Frontend,
  { node, machine, services }: PacketView,
): readonly ServicePort[] {
  const taken = { places: node.places, services }
  return ports
    .filter((port) => holderOf(frontend, port, taken, machine) === undefined)
    .toSorted((a, b) => compareStandings(standingOf(frontend, a), standingOf(frontend, b)))
}

/** A Service that has the destination's address, by its ports. */
export interface AddressOwner {
  readonly kind: FrontendKind
  readonly service: string
  readonly ports: readonly string[]
}

/** The Services that have the address at any port. */
export function ownersOfAddress(address: IpAddress, { services }: PacketView): readonly AddressOwner[] {
  const owners = new Map<string, AddressOwner & { readonly ports: string[] }>()
  for (const port of services.servicePorts()) {
    if (!addressesOf(port).has(address)) continue
    const owner = owners.get(port.service) ?? {
      kind: kindOf(port, address),
      service: port.service,
      ports: [],
    }
    owner.ports.push(`${port.port}/${frontendProtocols[port.protocol]}`)
    owners.set(port.service, owner)
  }
  return [...owners.values()]
}

/** Whether the port of an address that Services have, but not at this port, is refused (F-055). */
export function refusesUnusedPort(
  owners: readonly AddressOwner[],
  { refusedPorts }: PacketRules,
  isLocal: boolean,
): boolean {
  if (owners.length === 0 || refusedPorts === 'none') return false
  return refusedPorts === 'vips' ? !isLocal : owners.some(({ kind }) => kind === 'cluster-ip')
}
