// The client of a packet: how the rules of a mode see it.
import { cidrContains, type IpAddress } from '../address.js'
import type { PacketRules, PipelineView } from '../engine/index.js'
import type { ServiceView } from '../model/index.js'
import { isLoopback, type NodeFacts } from '../node/index.js'

/** The first packet of a new connection. */
export interface Packet {
  /** `node`: a process of this node. */
  readonly client: 'node' | IpAddress
  /** The interface by which the packet comes in; undefined: not known. */
  readonly inInterface: string | undefined
  readonly destination: IpAddress
  readonly port: number
  readonly protocol: 'tcp' | 'udp' | 'sctp'
}

/** The knowledge of an agent about packets of one IP family. */
export interface PacketView {
  readonly services: Pick<
    ServiceView,
    'servicePorts' | 'endpoints' | 'withNodePort' | 'withHealthCheckPort' | 'healthCheckOwner'
  >
  readonly node: NodeFacts
  readonly rules: PacketRules
  /** As `Pipeline.ownerOf`. */
  readonly ownerOf: PipelineView['ownerOf']
  /** The addresses of this machine, loopback addresses included. */
  readonly machine: readonly IpAddress[]
  /** The source that the kernel gives to the node's own packets to the destination. Absent: it gave no answer. */
  readonly ownSource?: IpAddress | undefined
  /** The reason why the packet does not have the mark of its Service, a clause. Absent: it has it, if the mode has marks. */
  readonly lostMark?: string
}

export interface PacketClient {
  /** Its address towards this destination; undefined: the address of the node is not known. */
  readonly address: IpAddress | undefined
  readonly isNode: boolean
  /** The local detector takes it for a pod of this node. */
  readonly isPod: boolean
  /** One clause. */
  readonly text: string
}

/** Whether the destination is an address of this machine without VIPs. */
export function isOnMachine(
  { destination }: Pick<Packet, 'destination'>,
  { machine }: Pick<PacketView, 'machine'>,
): boolean {
  return machine.includes(destination) || isLoopback(destination)
}

export function clientOf(packet: Packet, view: PacketView): PacketClient {
  const { client, destination } = packet
  const { machine, rules } = view
  const isOwn = isOnMachine(packet, view)
  const isNode = client === 'node' || machine.includes(client)
  // Without the kernel's answer: the destination if that is local, else the node's address.
  const ownSource = view.ownSource ?? (isOwn ? destination : rules.nodeIP)
  const address = client === 'node' ? ownSource : client
  const { isPod, text } = detection(packet, view, { address, isNode })
  if (isNode) return { address, isNode, isPod, text: 'a process of this node' }
  return { address, isNode, isPod, text }
}

/** The answer of the local detector (F-048, F-051). */
function detection(
  { inInterface }: Packet,
  view: PacketView,
  { address, isNode }: { readonly address: IpAddress | undefined; readonly isNode: boolean },
): { readonly isPod: boolean; readonly text: string } {
  const { localDetector } = view.rules
  if (localDetector === undefined)
    return { isPod: false, text: 'an address of unknown kind: there is no local detector' }
  if (localDetector.kind === 'cidr') {
    const { cidr } = localDetector
    const isPod = address !== undefined && cidrContains(cidr, address)
    const network = `${cidr.address}/${cidr.prefixLength}`
    return isPod
      ? { isPod, text: `a pod: it is in ${network}` }
      : { isPod, text: `outside of the pods' network ${network}` }
  }
  const { name } = localDetector
  if (isNode) return { isPod: false, text: 'a process of this node' }
  if (inInterface !== undefined) {
    const isPod = name.endsWith('+') ? inInterface.startsWith(name.slice(0, -1)) : inInterface === name
    return isPod
      ? { isPod, text: `a pod: it comes in by ${inInterface}` }
      : { isPod, text: `no pod: it comes in by ${inInterface}, not by ${name}` }
  }
  const isPod = address !== undefined && isHere(address, view)
  return isPod
    ? { isPod, text: `assumed to be a pod that comes in by ${name}: it has an address of this node's pods` }
    : { isPod, text: `assumed not to come in by ${name}` }
}

/** Whether a pod of this node has the address: by the node's networks, or by an endpoint. */
function isHere(address: IpAddress, { node, services }: PacketView): boolean {
  if (node.podCIDRs.some((cidr) => cidrContains(cidr, address))) return true
  for (const port of services.servicePorts()) {
    const isOfNode = services
      .endpoints(port)
      .some((endpoint) => endpoint.address === address && endpoint.nodeName === node.name)
    if (isOfNode) return true
  }
  return false
}
