// The node's own firewall on the way of a packet that explain has decided on.
import { parseIpAddress } from '../address.js'
import { BugError } from '../errors.js'
import { isLoopback } from '../node/index.js'
import { type FirewallHook, natPriority } from '../kernel/index.js'
import type { Packet, PacketView } from './explain-client.js'
import { isRelayed } from './explain-frontend.js'
import type { PacketDecision, PacketEndpoint, PacketStep, PacketVerdict } from './explain-packet.js'
import {
  type ChainReader,
  type FirewallChains,
  type FirewallFate,
  fateAt,
  ipvsPriorities,
  type Passage,
} from './firewall.js'

/** The treatment of a packet by rules of other programs. */
export interface FirewallAnswer {
  /**
   * `drops`: they drop or reject it, whichever endpoint it is for. `may-drop`: rules that cannot be evaluated decide, or it depends on the
   * endpoint. `not-asked`: it does not get that far. `unknown`: the kernel did not answer.
   */
  readonly state: 'passes' | 'drops' | 'may-drop' | 'not-asked' | 'unknown'
  /** A sentence per rule; for `unknown`: the kernel's error. */
  readonly rules: readonly string[]
}

/** The answer, and the decision with it. */
export interface Firewalled extends Pick<PacketDecision, 'verdict' | 'endpoints' | 'steps'> {
  readonly firewall: FirewallAnswer
}

/** Follows the request at the hooks prerouting, input, forward and output. Throws KernelError. */
export async function withFirewall(
  packet: Packet,
  view: PacketView,
  decision: PacketDecision,
  { read, pause }: ChainReader,
): Promise<Firewalled> {
  const ways = waysOf(packet, view, decision)
  const { verdict, endpoints, steps } = decision
  if (ways.length === 0) return { verdict, endpoints, steps, firewall: { state: 'not-asked', rules: [] } }
  const chains = await read()
  const fates: FirewallFate[] = []
  for (const way of ways) {
    fates.push(await fateOf(way, chains))
    await pause()
  }
  const lines = new Set(fates.flatMap((fate) => (fate.state === 'passes' ? [] : [sentenceOf(fate)])))
  const rules = [...lines]
  const added = [...steps, ...rules.map((text): PacketStep => ({ text }))]
  if (rules.length === 0) return { verdict, endpoints, steps, firewall: { state: 'passes', rules } }
  const isCertain = fates.every(({ state }) => state === 'drops' || state === 'rejects')
  if (!isCertain) return { verdict, endpoints, steps: added, firewall: { state: 'may-drop', rules } }
  return { verdict: verdictOf(fates), endpoints, steps: added, firewall: { state: 'drops', rules } }
}

function verdictOf(fates: readonly FirewallFate[]): PacketVerdict {
  return fates.every(({ state }) => state === 'rejects') ? 'refuse' : 'drop'
}

function sentenceOf({ state, by }: FirewallFate): string {
  const verb = { passes: 'passes', drops: 'drops', rejects: 'rejects', 'may-drop': 'may drop' }[state]
  return `the node's own firewall ${verb} the packet: ${by}`
}

/** The first fate along the way that is not to pass. */
async function fateOf(way: readonly Passage[], chains: FirewallChains): Promise<FirewallFate> {
  let doubtful: FirewallFate | undefined
  for (const passage of way) {
    const fate = await fateAt(passage, chains)
    if (fate.state === 'drops' || fate.state === 'rejects') return fate
    if (fate.state === 'may-drop') doubtful ??= fate
  }
  return doubtful ?? { state: 'passes', by: '' }
}

/** The hooks that the packet passes, for each endpoint that may get it. None: no rule of other programs matters any more. */
function waysOf(
  packet: Packet,
  view: PacketView,
  { verdict, client, endpoints }: PacketDecision,
): readonly (readonly Passage[])[] {
  const { rules, machine } = view
  const isByRelay = isRelayed(packet, view)
  const isLocal = machine.includes(packet.destination) || isLoopback(packet.destination)
  const passage: MakePassage = (hook, { isAccepted = false, ...what } = {}) => ({
    hook,
    source: client.address,
    destination: packet.destination,
    port: packet.port,
    protocol: packet.protocol,
    inInterface: hook === 'output' ? '' : client.isNode ? 'lo' : packet.inInterface,
    isTranslated: false,
    isFromNode: client.isNode,
    ownChains: ownChains(view, isAccepted),
    ...what,
  })
  /** The way to an address without translation. */
  const direct = (isHere: boolean, what: PassageChange = {}): readonly Passage[] => {
    const arrival = isHere ? [passage('input', what)] : []
    if (client.isNode) return [passage('output', { ...what, isAccepted: false }), ...arrival]
    return [
      passage('prerouting', { ...what, isAccepted: false }),
      ...(isHere ? arrival : [passage('forward', what)]),
    ]
  }
  /** IPVS takes the packet at input, the node's own at output; the relay has sockets. */
  const toProxy = (): readonly Passage[] => {
    if (isByRelay) return direct(true)
    if (client.isNode) return [passage('output', { leavesAt: ipvsPriorities.output })]
    return [passage('prerouting'), passage('input', { leavesAt: ipvsPriorities.input })]
  }
  const original = { destination: packet.destination, port: packet.port }
  switch (verdict) {
    case 'serve':
      return endpoints
        .filter(({ isCandidate }) => isCandidate)
        .map((endpoint) =>
          rules.firewallHook === 'forward' && !isByRelay
            ? translatedWay(passage, endpoint, view, { isNode: client.isNode, original })
            : [...toProxy(), proxiedPassage(passage, endpoint, isByRelay)],
        )
    case 'reset':
      return [toProxy()]
    case 'untouched':
      return [direct(isLocal)]
    case 'health-check':
      return [direct(true, { isAccepted: true })]
    case 'refuse':
      // Rules that come earlier may drop it instead.
      return [direct(isLocal, { leavesAt: natPriority('prerouting') })]
    case 'drop':
      return []
  }
}

type PassageChange = Partial<Passage> & { readonly isAccepted?: boolean }
type MakePassage = (hook: FirewallHook, what?: PassageChange) => Passage

/** The way to an endpoint with the translation of the destination. `isNode`: the client is this node. */
function translatedWay(
  passage: MakePassage,
  { endpoint, isMasqueraded }: PacketEndpoint,
  { machine }: PacketView,
  {
    isNode,
    original,
  }: { readonly isNode: boolean; readonly original: Pick<Passage, 'destination' | 'port'> },
): readonly Passage[] {
  const target = { ...addressOf(endpoint), isTranslated: true }
  const isHere = machine.includes(target.destination)
  const arrival = isHere ? [passage('input', target)] : []
  if (isNode) return [passage('output', { ...target, original }), ...arrival]
  const onward = isHere ? arrival : [passage('forward', { ...target, isAccepted: isMasqueraded })]
  return [passage('prerouting', { ...target, original }), ...onward]
}

/** IPVS and the relay send to the endpoint at output. Whether conntrack calls the packets of IPVS translated is left open. */
function proxiedPassage(passage: MakePassage, { endpoint }: PacketEndpoint, isByRelay: boolean): Passage {
  const target = addressOf(endpoint)
  return isByRelay
    ? passage('output', { ...target, source: undefined, isFromNode: true })
    : passage('output', { ...target, isTranslated: undefined })
}

export function addressOf(endpoint: string): Pick<Passage, 'destination' | 'port'> {
  const address = parseIpAddress(endpoint.replace(/^\[?(.*?)\]?:\d+$/u, '$1'))
  if (address === undefined) throw new BugError(`${endpoint} is no endpoint`)
  return { destination: address, port: Number(endpoint.slice(endpoint.lastIndexOf(':') + 1)) }
}

function ownChains({ rules: { sharedChains } }: PacketView, isAccepted: boolean): Passage['ownChains'] {
  const { all, accepting } = sharedChains
  return new Map(all.map((chain) => [chain, isAccepted && accepting.includes(chain)]))
}
