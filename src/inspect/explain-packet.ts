// The fate of the first packet of a connection, with the reasons. Pure.
import { cidrContains, formatCidr, formatEndpoint, type IpAddress } from '../address.js'
import { servicePortName } from '../model/index.js'
import { isLoopback } from '../node/index.js'
import {
  type Backend,
  type ExplainedRoute,
  explainRoute,
  type RuleNumber,
  verdictOf,
} from '../routing/index.js'
import { clientOf, isOnMachine, type Packet, type PacketClient, type PacketView } from './explain-client.js'
import { unservedProtocol } from './conflicts.js'
import {
  type AddressOwner,
  findFrontend,
  type FoundFrontend,
  isVip,
  type LeftOut,
  ownersOfAddress,
  refusesUnusedPort,
} from './explain-frontend.js'

/**
 * `serve`: to one of the endpoints. `refuse`: an ICMP error or a reset. `reset`: accepted, then reset. `drop`: nothing comes back.
 * `untouched`: it goes on as if there were no Services. `health-check`: the agent itself answers.
 */
export type PacketVerdict = 'serve' | 'refuse' | 'reset' | 'drop' | 'untouched' | 'health-check'

export interface PacketStep {
  /** Absent: no rule of kube-proxy's behaviour. */
  readonly rule?: RuleNumber
  /** A clause without a full stop. */
  readonly text: string
}

export interface PacketEndpoint {
  /** `10.244.1.10:8080`. */
  readonly endpoint: string
  /** The node of the endpoint; absent: not known. */
  readonly node?: string
  /** It may get the connection. */
  readonly isCandidate: boolean
  /** It sees the address of the node instead of the client's. */
  readonly isMasqueraded: boolean
  readonly rule: RuleNumber
  readonly reason: string
}

export interface PacketDecision {
  readonly verdict: PacketVerdict
  /** The frontend's owner; undefined: no Service has the destination. */
  readonly found: FoundFrontend | undefined
  readonly client: PacketClient
  readonly endpoints: readonly PacketEndpoint[]
  readonly steps: readonly PacketStep[]
  /** The mode recognizes the packet by a mark, if it has marks. */
  readonly isByMark?: true
}

/** The choice of a list of endpoints. */
interface Choice {
  readonly list: 'cluster' | 'local'
  readonly step: PacketStep
  /** undefined: no masquerading, except of an endpoint that reaches itself. */
  readonly masquerade: PacketStep | undefined
  /** As `PacketDecision.isByMark`. */
  readonly isByMark?: true
}

type Decided = Pick<PacketDecision, 'verdict' | 'endpoints' | 'steps' | 'isByMark'>

/** Connections that exist already do not count, nor do other programs' rules: `withFirewall` follows the packet through these. */
export function explainPacket(packet: Packet, view: PacketView): PacketDecision {
  const client = clientOf(packet, view)
  const { found, leftOut } = findFrontend(packet, view)
  const decided = takenByAll(packet, view, decide(packet, view, { client, found, leftOut }))
  return { ...decided, steps: [...leftOut.map(leftOutStep), ...decided.steps], client, found }
}

function leftOutStep({ port, kind, owner, reason }: LeftOut): PacketStep {
  const name = servicePortName(port)
  return {
    text: `${name} names this as ${frontendNames[kind]}, and does not get it: it belongs to ${owner}, ${reason}`,
  }
}

interface Known {
  readonly client: PacketClient
  readonly found: FoundFrontend | undefined
}

function decide(
  packet: Packet,
  view: PacketView,
  { client, found, leftOut }: Known & { readonly leftOut: readonly LeftOut[] },
): Decided {
  if (isLoopback(packet.destination) && !client.isNode)
    return only('drop', { rule: 'F-059', text: 'no other machine reaches the loopback network of this node' })
  if (found === undefined && leftOut.length > 0)
    return only('untouched', { text: wayOf(packet, view, client) })
  if (found === undefined) return withoutFrontend(packet, view, client)
  const explained = explainRoute(found.port, view.services.endpoints(found.port), view.node)
  const decided = atFrontend(packet, view, { client, found, explained })
  return { ...decided, steps: [...frontendSteps(packet, found), ...decided.steps] }
}

function only(verdict: PacketVerdict, step: PacketStep): Decided {
  return { verdict, endpoints: [], steps: [step] }
}

/** Where no socket serves the client, one at all addresses takes it. */
function takenByAll(packet: Packet, view: PacketView, decided: Decided): Decided {
  const { protocol, port, destination } = packet
  const { verdict, steps } = decided
  const isLocal = isOnMachine(packet, view) || isVip(destination, view)
  const isUnserved = verdict === 'refuse' || (verdict === 'untouched' && isLocal)
  if (!isUnserved || protocol === 'sctp' || view.rules.listensAtAll?.(protocol, port) !== true) return decided
  const text = `node port ${port} has a socket at all addresses, which ${
    protocol === 'tcp' ? 'takes the connection instead, and resets it' : 'takes the datagram, and discards it'
  }: it serves other addresses`
  return { ...decided, verdict: silence(view, packet), steps: [...steps, { text }] }
}

function withoutFrontend(packet: Packet, view: PacketView, client: PacketClient): Decided {
  const { destination } = packet
  const { rules } = view
  const owners = ownersOfAddress(destination, view)
  const steps = owners.map((owner) => ({ text: ownerText(destination, owner) }))
  if (refusesUnusedPort(destination, owners, view)) {
    const refused: PacketStep = {
      rule: 'F-055',
      text: 'a port that no Service has of this address is refused',
    }
    return { verdict: 'refuse', endpoints: [], steps: [...steps, refused] }
  }
  const network = rules.droppedNetworks.find((cidr) => cidrContains(cidr, destination))
  if (owners.length === 0 && network !== undefined)
    return only('drop', {
      rule: 'F-055',
      text: `no Service has ${destination}, and it is in the ServiceCIDR ${formatCidr(network)}`,
    })
  const text = owners.length === 0 ? `no Service has ${destination}` : 'no Service has this port'
  const way = { text: wayOf(packet, view, client) }
  return { verdict: 'untouched', endpoints: [], steps: [...steps, { text }, way] }
}

function ownerText(address: IpAddress, { kind, service, ports, holder }: AddressOwner): string {
  const text = `${address} is ${frontendNames[kind]} of ${service}, which has the ports ${ports.join(', ')}`
  return holder === undefined ? text : `${text}, and is not served there: the address belongs to ${holder}`
}

/** The decision about a packet that the rules of Services do not see. `reasons`: a clause each. */
export function bypassedPacket(
  packet: Packet,
  { client, found }: PacketDecision,
  reasons: readonly string[],
): PacketDecision {
  const { destination, port } = packet
  const before =
    found === undefined
      ? [{ text: `no Service has ${formatEndpoint(destination, port)}` }]
      : frontendSteps(packet, found)
  const steps = [...before, ...reasons.map((text) => ({ text }))]
  return { verdict: 'untouched', found, client, endpoints: [], steps }
}

/** The treatment of a packet that no Service concerns. */
function wayOf(packet: Packet, view: PacketView, client: PacketClient): string {
  const { destination, port } = packet
  if (isVip(destination, view))
    return `this node accepts packets to ${destination} itself: a program that listens there answers`
  if (isOnMachine(packet, view))
    return `${destination} is an address of this node, and ${port} no node port: a program that listens there answers`
  return onwardOf(packet, view, client)
}

/** The way of a packet without rules of Services. */
export function onwardOf(packet: Packet, view: PacketView, { isNode }: PacketClient): string {
  if (isOnMachine(packet, view))
    return `${packet.destination} is an address of this node: a program that listens there answers`
  return isNode
    ? 'this node sends it by its routes, as it does without Services'
    : 'this node forwards it by its routes, as it does without Services, if its firewall allows it'
}

const frontendNames: Readonly<Record<FoundFrontend['kind'], string>> = {
  'cluster-ip': 'a cluster IP',
  'external-ip': 'an external IP',
  'load-balancer-ip': 'a load-balancer IP',
  'node-port': 'a node port',
  'health-check': 'the health check port',
}

const frontendRules: Readonly<Record<FoundFrontend['kind'], RuleNumber>> = {
  'cluster-ip': 'F-007',
  'external-ip': 'F-010',
  'load-balancer-ip': 'F-009',
  'node-port': 'F-008',
  'health-check': 'F-018',
}

function frontendSteps({ destination, port }: Packet, { port: owner, kind, losers }: FoundFrontend) {
  const isOnNode = kind === 'node-port' || kind === 'health-check'
  const text = `${isOnNode ? port : destination} is ${frontendNames[kind]} of ${servicePortName(owner)}`
  const lost = losers.map((loser) => ({
    text: `${servicePortName(loser)} claims the same frontend, and does not get it (docs/adr/0007)`,
  }))
  return [{ rule: frontendRules[kind], text }, ...lost]
}

interface At extends Known {
  readonly found: FoundFrontend
  readonly explained: ExplainedRoute
}

function atFrontend(packet: Packet, view: PacketView, at: At): Decided {
  const { found, explained, client } = at
  const { rules } = view
  const side = found.kind === 'cluster-ip' ? 'internal' : 'external'
  if (!found.isServed && !isRefusedAnyway(view, at))
    return only('untouched', { rule: 'F-060', text: `${packet.destination} serves no node ports` })
  if (found.kind === 'health-check') return only('health-check', { rule: 'F-092', text: 'the agent answers' })
  const lack = unservedProtocol(packet.protocol, () => rules.isRelayed)
  if (lack !== undefined) return only('refuse', { text: lack })
  const excluded = sourceStep(packet, view, at)
  if (excluded !== undefined) return only(silence(view, packet), excluded)
  const choice = choose(view, at)
  const chosen = backendsOf(explained, choice.list)
  if (chosen.length > 0) return served(view, at, choice)
  const verdict = verdictOf(explained.route, side)
  const endpoints = endpointsOf(view, at, choice)
  const isHere = isOnMachine(packet, view)
  const reason: PacketStep =
    verdict === 'drop'
      ? { rule: 'F-054', text: 'only endpoints of other nodes can serve it' }
      : { rule: 'F-053', text: 'no endpoint can serve it' }
  const isIgnored =
    (side === 'external' && client.isNode && !rules.refusesNode && !isHere) ||
    (found.kind === 'node-port' && verdict === 'refuse' && rules.nodePortRefusals === 'none')
  if (isIgnored) {
    const text = client.isNode && !isHere ? 'the mode refuses other clients only' : 'nothing listens'
    return { verdict: 'untouched', endpoints, steps: [choice.step, reason, { text }] }
  }
  // A relay listens on an external frontend for the node and its pods, and has no listener without an endpoint.
  const dropped = side === 'internal' && rules.isRelayed ? 'refuse' : silence(view, packet)
  return { verdict: verdict === 'drop' ? dropped : 'refuse', endpoints, steps: [choice.step, reason] }
}

/** The verdict where a packet is dropped: a socket cannot ignore a connection. */
function silence({ rules }: PacketView, { protocol }: Packet): PacketVerdict {
  return rules.isRelayed && protocol === 'tcp' ? 'reset' : 'drop'
}

/** Whether a node port is refused at an address that does not serve node ports. */
function isRefusedAnyway({ rules }: PacketView, { found, explained }: At): boolean {
  if (found.kind !== 'node-port' || rules.nodePortRefusals !== 'every-address') return false
  return verdictOf(explained.route, 'external') !== 'serve'
}

/** F-056. undefined: the source ranges do not exclude the client. */
function sourceStep(
  { destination }: Packet,
  { rules }: PacketView,
  { client, found, explained }: At,
): PacketStep | undefined {
  const { sourceRanges, loadBalancerIPs, externalIPs, clusterBackends, localBackends } = explained.route
  const isGuarded =
    found.kind !== 'node-port' &&
    found.kind !== 'cluster-ip' &&
    sourceRanges.length > 0 &&
    loadBalancerIPs.includes(destination) &&
    (rules.guardsExternalIPs || !externalIPs.includes(destination)) &&
    (rules.guardsWithoutEndpoints || clusterBackends.length + localBackends.length > 0)
  if (!isGuarded) return undefined
  const { address } = client
  const { nodeIP } = rules
  if (address !== undefined && sourceRanges.some((range) => cidrContains(range, address))) return undefined
  const isNodeAllowed = nodeIP !== undefined && sourceRanges.some((range) => cidrContains(range, nodeIP))
  if (isNodeAllowed && address !== undefined && loadBalancerIPs.includes(address)) return undefined
  return {
    rule: 'F-056',
    text: `${address ?? 'the client'} is in none of the source ranges ${sourceRanges.map(formatCidr).join(', ')}`,
  }
}

function choose(view: PacketView, { client, found, explained: { route } }: At): Choice {
  const { rules } = view
  if (found.kind === 'cluster-ip') {
    const list = route.isInternalLocal ? 'local' : 'cluster'
    const step = policyStep('F-013', 'internalTrafficPolicy', list)
    return { list, step, masquerade: internalMasquerade(view, client) }
  }
  if (!route.isExternalLocal) {
    const masquerade: PacketStep = { rule: 'F-049', text: 'external traffic under policy Cluster' }
    return { list: 'cluster', step: policyStep('F-012', 'externalTrafficPolicy', 'cluster'), masquerade }
  }
  const isNear = client.isNode || client.isPod
  if (isNear && route.clusterBackends.length > 0) {
    const who = client.isPod ? 'pods' : 'this node'
    const text = `externalTrafficPolicy is Local, but ${who} may reach the endpoints of the cluster`
    const masquerade: PacketStep | undefined = client.isPod
      ? undefined
      : { rule: 'F-051', text: 'traffic of this node to an external frontend' }
    if (view.lostMark === undefined)
      return { list: 'cluster', step: { rule: 'F-015', text }, masquerade, isByMark: true }
    const list = route.localBackends.length > 0 ? 'local' : 'cluster'
    return { list, step: { rule: 'F-052', text: view.lostMark }, masquerade }
  }
  const isElsewhere = route.localBackends.length === 0 && route.clusterBackends.length > 0
  if (rules.fallsBackToCluster && rules.localDetector === undefined && isElsewhere) {
    const text = 'externalTrafficPolicy is Local, no endpoint is here, and pods cannot be recognized'
    return { list: 'cluster', step: { rule: 'F-052', text }, masquerade: undefined }
  }
  return {
    list: 'local',
    step: policyStep('F-012', 'externalTrafficPolicy', 'local'),
    masquerade: undefined,
  }
}

function policyStep(rule: RuleNumber, policy: string, list: Choice['list']): PacketStep {
  const text = list === 'local' ? 'Local: endpoints of this node' : 'Cluster: endpoints of all nodes'
  return { rule, text: `${policy} is ${text}` }
}

/** F-047, F-048. */
function internalMasquerade({ rules }: PacketView, client: PacketClient): PacketStep | undefined {
  if (rules.masqueradeAll) return { rule: 'F-047', text: 'all traffic to cluster IPs is masqueraded' }
  if (rules.localDetector === undefined || client.isPod) return undefined
  return { rule: 'F-048', text: 'traffic to a cluster IP that comes from no pod of this node' }
}

function backendsOf({ route }: ExplainedRoute, list: Choice['list']): readonly Backend[] {
  return list === 'cluster' ? route.clusterBackends : route.localBackends
}

function served(view: PacketView, at: At, choice: Choice): Decided {
  const endpoints = endpointsOf(view, at, choice)
  const { client, explained } = at
  const candidates = endpoints.filter(({ isCandidate }) => isCandidate)
  const { affinitySeconds } = explained.route
  const steps: PacketStep[] = [choice.step, masqueradeStep(view, choice)]
  if (affinitySeconds > 0)
    steps.push({
      rule: 'F-041',
      text: `a client keeps its endpoint for ${affinitySeconds} s after its last connection`,
    })
  const own = backendsOf(explained, choice.list).filter(({ address }) => address === client.address)
  const isSelf = ({ endpoint }: PacketEndpoint): boolean =>
    own.some(({ address, port }) => formatEndpoint(address, port) === endpoint)
  const selves = candidates.filter(isSelf)
  const isByMark = choice.isByMark === true ? ({ isByMark: true } as const) : {}
  if (selves.length === 0) return { verdict: 'serve', endpoints, steps, ...isByMark }
  // An address of this machine is an endpoint of this node, also if its slice names no node.
  const isSeen = client.isNode || selves.every(({ isMasqueraded }) => isMasqueraded)
  const text = isSeen
    ? 'the client is an endpoint itself, and sees the address of this node'
    : 'the client is an endpoint itself on another node: its kernel drops a packet with its own source address'
  steps.push({ rule: 'F-050', text })
  const verdict = !isSeen && selves.length === candidates.length ? 'drop' : 'serve'
  return { verdict, endpoints, steps, ...isByMark }
}

function masqueradeStep({ rules }: PacketView, { masquerade }: Choice): PacketStep {
  if (rules.isRelayed) return { text: 'the relay connects to the endpoint itself, which sees this node' }
  if (masquerade === undefined) return { text: 'not masqueraded: the endpoint sees the client' }
  return { ...masquerade, text: `masqueraded: ${masquerade.text}` }
}

function endpointsOf(
  { rules, node, services }: PacketView,
  { client, found, explained }: At,
  { list, masquerade }: Choice,
): readonly PacketEndpoint[] {
  const nodes = services.endpoints(found.port).map(({ nodeName }) => nodeName)
  return explained.endpoints.map(({ endpoint: { address, port }, [list]: choice }, index) => {
    const nodeName = nodes[index]
    const isHairpin = address === client.address && (rules.hairpin === 'all' || nodeName === node.name)
    return {
      endpoint: formatEndpoint(address, port),
      ...(nodeName === undefined ? {} : { node: nodeName }),
      isCandidate: choice.isUsed,
      isMasqueraded: choice.isUsed && (rules.isRelayed || masquerade !== undefined || isHairpin),
      rule: choice.rule,
      reason: choice.text,
    }
  })
}
