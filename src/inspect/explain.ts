// The fate of a new connection, with the reasons, the kernel objects, and the kernel's own answer.
import { familyOf, formatEndpoint, type IpAddress, parseIpAddress } from '../address.js'
import type { PipelineView } from '../engine/index.js'
import { ConfigError, KernelError } from '../errors.js'
import { servicePortName } from '../model/index.js'
import { type Route, route } from '../routing/index.js'
import type { Packet, PacketView } from './explain-client.js'
import { type FoundFrontend, type FrontendKind } from './explain-frontend.js'
import { type FirewallAnswer, withOtherRules } from './explain-firewall.js'
import type { MarkAnswer } from './explain-mark.js'
import { explainPacket, type PacketEndpoint, type PacketStep, type PacketVerdict } from './explain-packet.js'
import { type KernelRoutes, ownSource, type RouteAnswer, withRoutes } from './explain-routes.js'
import { type ChainReader, FirewallChains } from './firewall.js'
import type { Inspected } from './inspected.js'

/** The question as it was written. */
interface ExplainQuery {
  /** An IP address, or `node`. */
  readonly client: string
  /** `10.96.0.1:80`, `10.96.0.10:53/udp`, `[fd00::1]:80`. */
  readonly destination: string
  /** The interface by which the packet comes in; undefined: not known. */
  readonly inInterface?: string | undefined
}

export interface Explanation {
  readonly client: {
    readonly address: string
    readonly kind: 'node' | 'pod' | 'other'
    readonly text: string
  }
  /** `10.96.0.1:80/tcp`. */
  readonly destination: string
  readonly mode: string
  readonly verdict: PacketVerdict
  /** The Service that has the frontend. Absent: none. */
  readonly service?: { readonly name: string; readonly frontend: FrontendKind }
  readonly endpoints: readonly PacketEndpoint[]
  readonly steps: readonly PacketStep[]
  readonly firewall: FirewallAnswer
  readonly mark: MarkAnswer
  readonly route: RouteAnswer
  /** The kernel objects by which the mode serves the frontend, as the tools list them. */
  readonly objects: readonly string[]
  readonly kernel: KernelAgreement
}

interface KernelAgreement {
  /** `not-asked`: no Service has the destination, or the agent has not programmed the kernel yet. `unknown`: the kernel did not answer. */
  readonly state: 'agrees' | 'differs' | 'not-asked' | 'unknown'
  /** A sentence per object that is missing or differs; for `unknown`: the kernel's error. */
  readonly differences: readonly string[]
}

/** Throws ConfigError if the question cannot be understood. The work grows with the number of Services: some milliseconds at 10,000. */
export async function explain(inspected: Inspected, query: ExplainQuery): Promise<Explanation> {
  const packet = packetOf(query)
  const family = familyOf(packet.destination)
  const pipeline = inspected.synchronizer.views.find(({ health }) => health.family === family)
  if (pipeline === undefined)
    throw new ConfigError('destination', `this agent serves no ${family === 'ipv4' ? 'IPv4' : 'IPv6'}`)
  const rules = pipeline.packetRules()
  if (rules === undefined)
    throw new ConfigError('destination', 'the agent has not read this node yet: ask again in a moment')
  const { facts: node } = inspected.node
  const view: PacketView = {
    services: pipeline.services,
    node,
    rules,
    ownerOf: (frontend) => pipeline.ownerOf(frontend),
    machine: await inspected.machineAddresses(family),
    ownSource: await ownSource(packet, inspected.routing),
  }
  const decision = explainPacket(packet, view)
  const { client, found } = decision
  const narrowed = found && routeTo(packet.destination, found, view)
  // It comes first: the rules of other programs are then read from what it has read.
  const kernel = narrowed === undefined ? notAsked : await agreement(pipeline, narrowed)
  const reader = chainReader(inspected, packet)
  const ruled = await withOtherRules(packet, view, decision, reader)
  const { endpoints, firewall, mark } = ruled
  const routed = await withRoutes(packet, view, { ...ruled, client }, kernelRoutes(inspected))
  return {
    client: {
      address: client.address ?? '',
      kind: client.isNode ? 'node' : client.isPod ? 'pod' : 'other',
      text: client.text,
    },
    destination: `${formatEndpoint(packet.destination, packet.port)}/${packet.protocol}`,
    mode: inspected.mode,
    verdict: routed.verdict,
    ...(found === undefined ? {} : { service: { name: servicePortName(found.port), frontend: found.kind } }),
    endpoints,
    steps: routed.steps,
    firewall,
    mark,
    route: routed.route,
    objects: narrowed === undefined ? [] : pipeline.describe(narrowed),
    kernel,
  }
}

function kernelRoutes({ mode, config, routing }: Inspected): KernelRoutes {
  const { masqueradeBit } = mode === 'nftables' ? config.nftables : config.iptables
  return { routing, masqueradeMark: 2 ** masqueradeBit }
}

/** Reads the chains once. */
function chainReader({ firewall, clock }: Inspected, { destination }: Packet): ChainReader {
  let chains: Promise<FirewallChains> | undefined
  const readOnce = async (): Promise<FirewallChains> =>
    new FirewallChains(await firewall(familyOf(destination)))
  return { read: () => (chains ??= readOnce()), pause: async () => await clock.pause() }
}

const notAsked: KernelAgreement = { state: 'not-asked', differences: [] }

/** The route with the one frontend, and with its cluster IP, which chains of iptables mode depend on. */
function routeTo(destination: IpAddress, { port, kind }: FoundFrontend, view: PacketView): Route {
  const whole = route(port, view.services.endpoints(port), view.node)
  const only = (addresses: readonly IpAddress[]): readonly IpAddress[] =>
    addresses.filter((address) => address === destination)
  return {
    ...whole,
    externalIPs: only(whole.externalIPs),
    loadBalancerIPs: only(whole.loadBalancerIPs),
    nodePort: kind === 'node-port' ? whole.nodePort : 0,
    healthCheckNodePort: kind === 'health-check' ? whole.healthCheckNodePort : 0,
  }
}

async function agreement(pipeline: PipelineView, decided: Route): Promise<KernelAgreement> {
  if (!pipeline.isInForce) return notAsked
  try {
    const differences = await pipeline.differences(decided)
    if (differences === undefined) return notAsked
    return { state: differences.length === 0 ? 'agrees' : 'differs', differences }
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    return { state: 'unknown', differences: [error.message] }
  }
}

const protocols = ['tcp', 'udp', 'sctp'] as const

/** Throws ConfigError. */
function packetOf({ client, destination, inInterface }: ExplainQuery): Packet {
  const target = destinationOf(destination)
  const source = client === 'node' ? client : addressOf(client, 'client', 'write node, or an IP address')
  if (source !== 'node' && familyOf(source) !== familyOf(target.destination))
    throw new ConfigError('client', `${client} and ${target.destination} are of different IP families`)
  return { client: source, inInterface, ...target }
}

/** Throws ConfigError. */
function destinationOf(text: string): Pick<Packet, 'destination' | 'port' | 'protocol'> {
  const parts = /^(?:\[(?<six>[^\]]*)\]|(?<four>[^:/]*)):(?<port>\d+)(?:\/(?<protocol>.*))?$/u.exec(
    text,
  )?.groups
  if (parts === undefined)
    throw new ConfigError(
      'destination',
      `must be VIP:PORT or VIP:PORT/PROTOCOL, such as 10.96.0.1:80 or [fd00::1]:53/udp, not "${text}"`,
    )
  const port = Number(parts['port'])
  if (port < 1 || port > 65_535) throw new ConfigError('destination', `port ${port} is not from 1 to 65535`)
  const written = parts['protocol'] ?? 'tcp'
  const protocol = protocols.find((name) => name === written.toLowerCase())
  if (protocol === undefined)
    throw new ConfigError('destination', `protocol "${written}" must be tcp, udp or sctp`)
  const remedy = 'write the IP address that kubectl get service prints, not a name'
  return {
    destination: addressOf(parts['six'] ?? parts['four'] ?? '', 'destination', remedy),
    port,
    protocol,
  }
}

/** Throws ConfigError. */
function addressOf(text: string, field: string, remedy: string): IpAddress {
  const address = parseIpAddress(text)
  if (address === undefined) throw new ConfigError(field, `"${text}" is not an IP address: ${remedy}`)
  return address
}
