// The hooks that a packet passes which explain has decided on.
import { type IpAddress, parseIpAddress } from '../address.js'
import { BugError } from '../errors.js'
import { type FirewallHook, natPriority } from '../kernel/index.js'
import { isOnMachine, type Packet, type PacketView } from './explain-client.js'
import { isRelayed, isVip } from './explain-frontend.js'
import type { PacketDecision, PacketEndpoint } from './explain-packet.js'
import { ipvsPriorities, type Passage } from './firewall.js'

/** A way that the packet takes or may take. */
export interface Outcome {
  readonly decision: PacketDecision
  /** conntrack does not track the packet. */
  readonly isUntracked?: true
  /** Another program gives it another destination, and nothing is known about its way there. */
  readonly isDiverted?: true
}

/** The packet as it comes to the hook at which rules of Services translate it or mark it. */
export function arrivalOf(packet: Packet, view: PacketView, decision: PacketDecision): Passage {
  const { client, endpoints } = decision
  const { nat, firewallHook } = view.rules
  const isServed = endpoints.some(({ isCandidate }) => isCandidate)
  // It translates the packet; in ipvs mode it accepts connections to VIPs.
  const accepts = isServed && (firewallHook === 'forward' || !isOnMachine(packet, view))
  const own = nat?.chain === undefined ? [] : [[nat.chain, accepts] as const]
  return makerOf(packet, view, { decision })(client.isNode ? 'output' : 'prerouting', {
    isToNode: isToNode(packet, view, decision),
    ownChains: new Map([...ownChains(view, false), ...own]),
  })
}

/** The hooks that the packet passes, for each endpoint that may get it. None: no rule of other programs matters any more. */
export function waysOf(packet: Packet, view: PacketView, outcome: Outcome): readonly (readonly Passage[])[] {
  const { decision, isDiverted = false } = outcome
  const { verdict, client, endpoints } = decision
  const passage = makerOf(packet, view, outcome)
  const isByRelay = isRelayed(packet, view)
  const isLocal = isOnMachine(packet, view) || isVip(packet.destination, view)
  const original = { ...addressAndPort(packet), isToNode: isToNode(packet, view, decision) }
  const { isToNode: toNode } = original
  /** The way to an address without translation. */
  const direct = (isHere: boolean, what: PassageChange = {}): readonly Passage[] => {
    const arrival = isHere ? [passage('input', what)] : []
    const early = { ...what, isAccepted: false, isToNode: toNode }
    if (client.isNode) {
      const back = isHere ? [passage('prerouting', early)] : []
      return [passage('output', early), passage('postrouting', early), ...back, ...arrival]
    }
    const onward = isHere ? arrival : [passage('forward', what), forwarded(passage, what)]
    return [passage('prerouting', early), ...onward]
  }
  /** IPVS takes the packet at input, the node's own at output; the relay has sockets. */
  const toProxy = (): readonly Passage[] => {
    if (isByRelay) return direct(true)
    if (client.isNode) return [passage('output', { leavesAt: ipvsPriorities.output, isToNode: toNode })]
    return [passage('prerouting', { isToNode: toNode }), passage('input', { leavesAt: ipvsPriorities.input })]
  }
  const first = natPriority('prerouting')
  // Rules that come earlier may drop it instead.
  if (isDiverted) return [direct(false, { leavesAt: first }).slice(0, 1)]
  switch (verdict) {
    case 'serve':
      return endpoints
        .filter(({ isCandidate }) => isCandidate)
        .map((endpoint) =>
          view.rules.firewallHook === 'forward' && !isByRelay
            ? translatedWay(passage, endpoint, view, { isNode: client.isNode, original })
            : [...toProxy(), ...proxiedWay(passage, endpoint, view, { isNode: client.isNode, isByRelay })],
        )
    case 'reset':
      return [toProxy()]
    case 'untouched':
      return [direct(isLocal)]
    case 'health-check':
      return [direct(true, { isAccepted: true })]
    case 'refuse':
      return [direct(isLocal, { leavesAt: first }).filter(({ hook }) => hook !== 'postrouting')]
    case 'drop':
      return []
  }
}

type PassageChange = Partial<Passage> & { readonly isAccepted?: boolean }
type MakePassage = (hook: FirewallHook, what?: PassageChange) => Passage

function makerOf(packet: Packet, view: PacketView, { decision, isUntracked }: Outcome): MakePassage {
  const { client } = decision
  return (hook, { isAccepted = false, ...what } = {}) => ({
    hook,
    source: client.address,
    ...addressAndPort(packet),
    protocol: packet.protocol,
    inInterface: hook === 'output' || hook === 'postrouting' ? '' : client.isNode ? 'lo' : packet.inInterface,
    isTranslated: false,
    isFromNode: client.isNode,
    isUntracked,
    ownChains: ownChains(view, isAccepted),
    ...what,
  })
}

/** A forwarded packet at hook postrouting, where older kernels do not know the interface by which it came. */
function forwarded(passage: MakePassage, what: PassageChange): Passage {
  return passage('postrouting', { ...what, isAccepted: false, inInterface: undefined, isToNode: false })
}

/** The node's own packet to one of its addresses, which comes in again by lo. */
function byLoopback(passage: MakePassage, { isMasqueraded, ...what }: PassageChange): readonly Passage[] {
  const target = { ...what, ...(isMasqueraded === true ? { source: undefined } : {}), inInterface: 'lo' }
  return [passage('prerouting', { ...target, isToNode: true }), passage('input', target)]
}

/** The way to an endpoint with the translation of the destination. `isNode`: the client is this node. */
function translatedWay(
  passage: MakePassage,
  { endpoint, isMasqueraded }: PacketEndpoint,
  { machine }: PacketView,
  { isNode, original }: { readonly isNode: boolean; readonly original: NonNullable<Passage['original']> },
): readonly Passage[] {
  const target = { ...addressOf(endpoint), isTranslated: true, isMasqueraded }
  const isHere = machine.includes(target.destination)
  if (isNode) {
    const leave = passage('postrouting', { ...target, isToNode: isHere })
    const way = [passage('output', { ...target, original }), leave]
    return isHere ? [...way, ...byLoopback(passage, target)] : way
  }
  const onward = isHere
    ? [passage('input', target)]
    : [passage('forward', { ...target, isAccepted: isMasqueraded }), forwarded(passage, target)]
  return [passage('prerouting', { ...target, original }), ...onward]
}

/**
 * IPVS and the relay send to the endpoint at output; to one on this node IPVS leaves a packet of another machine at input
 * (ip_vs_nat_send_or_cont). Whether conntrack calls the packets of IPVS translated is left open. `isNode`: the client is this node.
 */
function proxiedWay(
  passage: MakePassage,
  { endpoint, isMasqueraded }: PacketEndpoint,
  { machine }: PacketView,
  { isNode, isByRelay }: { readonly isNode: boolean; readonly isByRelay: boolean },
): readonly Passage[] {
  const address = addressOf(endpoint)
  const isHere = machine.includes(address.destination)
  if (isHere && !isNode && !isByRelay) return []
  const target = isByRelay
    ? { ...address, source: undefined, isFromNode: true, isUntracked: undefined }
    : { ...address, isTranslated: undefined, isMasqueraded }
  const way = [passage('output', target), passage('postrouting', target)]
  return isHere ? [...way, ...byLoopback(passage, target)] : way
}

function addressAndPort({ destination, port }: Packet): Pick<Passage, 'destination' | 'port'> {
  return { destination, port }
}

/** Throws BugError. */
export function addressOf(endpoint: string): { readonly destination: IpAddress; readonly port: number } {
  const address = parseIpAddress(endpoint.replace(/^\[?(.*?)\]?:\d+$/u, '$1'))
  if (address === undefined) throw new BugError(`${endpoint} is no endpoint`)
  return { destination: address, port: Number(endpoint.slice(endpoint.lastIndexOf(':') + 1)) }
}

/** Whether the kernel takes the destination for an address of this node. In ipvs and userspace mode those of Services are. */
function isToNode(packet: Packet, view: PacketView, { found }: PacketDecision): boolean | undefined {
  if (isOnMachine(packet, view)) return true
  if (view.rules.firewallHook === 'forward') return false
  return found === undefined ? undefined : true
}

function ownChains({ rules: { sharedChains } }: PacketView, isAccepted: boolean): Passage['ownChains'] {
  const { all, accepting } = sharedChains
  return new Map(all.map((chain) => [chain, isAccepted && accepting.includes(chain)]))
}
