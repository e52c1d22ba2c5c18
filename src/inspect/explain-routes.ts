// The kernel's routes on the way of a packet that explain has decided on.
import type { IpAddress } from '../address.js'
import { KernelError, orRefusal } from '../errors.js'
import type { RouteQuestion } from '../kernel/index.js'
import type { Packet, PacketView } from './explain-client.js'
import type { Firewalled } from './explain-firewall.js'
import { addressOf } from './explain-passage.js'
import { isRelayed } from './explain-frontend.js'
import type { PacketDecision, PacketStep, PacketVerdict } from './explain-packet.js'
import type { Inspected } from './inspected.js'
import { type Entrance, type Leg, type Loss, LossReader } from './route-losses.js'

/** The kernel's answer about routes. */
export interface RouteAnswer {
  /**
   * `lost`: it does not route the packet, whichever endpoint it is for. `may-be-lost`: it depends on the endpoint, or on rules of other
   * programs that may take the packet away. `not-asked`: no Service serves the packet, or it is dropped anyway. `unknown`: the kernel did not
   * answer, or the interface by which the packet comes in is not known.
   */
  readonly state: 'routed' | 'lost' | 'may-be-lost' | 'not-asked' | 'unknown'
  /** The interface by which the packet comes in. Absent: the node sends it, or it is not known. */
  readonly inInterface?: {
    readonly name: string
    /** The question does not name it: this node's own packets to the client leave by it. */
    readonly isAssumed: boolean
  }
  /** A sentence for each reason; for `unknown`: why. */
  readonly reasons: readonly string[]
}

/** The answer, and the decision with it. */
interface Routed {
  readonly verdict: PacketVerdict
  readonly steps: readonly PacketStep[]
  readonly route: RouteAnswer
}

/** The decision so far. */
type RoutedDecision = Firewalled & Pick<PacketDecision, 'client'>

type Routing = Inspected['routing']

export interface KernelRoutes {
  readonly routing: Routing
  /** The mark that the mode gives to packets that it masquerades. */
  readonly masqueradeMark: number
}

/** Most endpoints whose routes are asked for: some ten microseconds each. */
const mostEndpoints = 256
/** Most endpoints that a sentence names. */
const mostNames = 3

/** The source that the kernel gives to the node's own packets to the destination; undefined: it does not route them, or gave no answer. */
export async function ownSource(packet: Packet, { lookUp }: Routing): Promise<IpAddress | undefined> {
  if (packet.client !== 'node') return undefined
  const { destination } = packet
  const choices = await orRefusal(
    async () => await lookUp([{ destination, transport: transportOf(packet.protocol, packet.port) }]),
  )
  if (choices instanceof KernelError) return undefined
  const [choice] = choices
  return choice?.isRouted === true ? choice.preferredSource : undefined
}

/**
 * Asks for the routes of the packet to the endpoints that may get it, at most `mostEndpoints`. The mark of the packet is that of the mode:
 * `masqueradeMark` for masqueraded packets, as rules of other programs may add others that are not known.
 */
export async function withRoutes(
  packet: Packet,
  view: PacketView,
  decision: RoutedDecision,
  { routing, masqueradeMark }: KernelRoutes,
): Promise<Routed> {
  const { verdict, steps, firewall } = decision
  if (verdict === 'untouched' || verdict === 'drop' || firewall.state === 'drops')
    return { verdict, steps, route: { state: 'not-asked', reasons: [] } }
  const origin = await orRefusal(async () => await originOf(packet, decision, routing))
  if (origin instanceof KernelError)
    return { verdict, steps, route: { state: 'unknown', reasons: [origin.message] } }
  if ('problem' in origin) return { verdict, steps, route: { state: 'unknown', reasons: [origin.problem] } }
  const { entrance } = origin
  const way = wayOf(packet, view, decision, { entrance, masqueradeMark })
  const losses = await orRefusal(async () => await lossesOf(way, new LossReader(entrance, routing)))
  const inInterface =
    entrance === undefined ? {} : { inInterface: { name: entrance.name, isAssumed: entrance.isAssumed } }
  if (losses instanceof KernelError)
    return { verdict, steps, route: { state: 'unknown', ...inInterface, reasons: [losses.message] } }
  const reasons = sentences(way, losses)
  // A packet that rules certainly take away is not served, unless it only misses those that masquerade.
  const mayBeTaken = firewall.state === 'may-bypass'
  const found = stateOf(way, losses)
  const state = found === 'lost' && mayBeTaken ? 'may-be-lost' : found
  const added = [...steps, ...reasons.map((text): PacketStep => ({ text }))]
  const route = { state, ...inInterface, reasons }
  return { verdict: state === 'lost' ? verdictOf(losses) : verdict, steps: added, route }
}

/** `entrance` undefined: the node sends the packet. `problem`: the interface is not known, a sentence. */
type Origin = { readonly entrance: Entrance | undefined } | { readonly problem: string }

/** Throws KernelError. */
async function originOf(
  { inInterface }: Packet,
  { client }: RoutedDecision,
  { lookUp, links }: Routing,
): Promise<Origin> {
  const source = client.address
  if (client.isNode || source === undefined) return { entrance: undefined }
  const all = await links()
  if (inInterface !== undefined) {
    const link = all.find(({ name }) => name === inInterface)
    if (link === undefined) return { problem: `this node has no interface ${inInterface}` }
    return { entrance: { index: link.index, name: link.name, isAssumed: false, source } }
  }
  const [back] = await lookUp([{ destination: source }])
  const unknown = 'the interface by which the packet comes in is not known'
  if (back?.isRouted !== true) return { problem: `${unknown}: this node has no route to ${source}` }
  const link = all.find(({ index }) => index === back.interfaceIndex)
  if (link === undefined || back.isLocal)
    return { problem: `${unknown}: this node takes ${source} for its own address` }
  return { entrance: { index: link.index, name: link.name, isAssumed: true, source } }
}

interface Way {
  /** The lookup for every endpoint. undefined: none. */
  readonly first: Leg | undefined
  /** One or more for each endpoint. */
  readonly toEndpoints: readonly Leg[]
  /** The endpoints that are not asked for. */
  readonly unasked: number
}

interface On {
  readonly entrance: Entrance | undefined
  readonly masqueradeMark: number
}

function wayOf(packet: Packet, view: PacketView, decision: RoutedDecision, on: On): Way {
  const { verdict, client, endpoints } = decision
  const { destination, port, protocol } = packet
  const isOwn = on.entrance === undefined
  const coming = on.entrance === undefined ? {} : { inInterface: on.entrance.index }
  // A socket that is bound to no address has no source yet.
  const source = packet.client === 'node' ? undefined : client.address
  const first: Leg = {
    question: { destination, source, ...coming, transport: transportOf(protocol, port) },
    by: isOwn ? 'sender' : 'arrival',
    target: destination,
    protocol,
  }
  if (verdict !== 'serve') return { first, toEndpoints: [], unasked: 0 }
  const isByRelay = isRelayed(packet, view)
  const isTranslated = view.rules.firewallHook === 'forward' && !isByRelay
  const candidates = endpoints.filter(({ isCandidate }) => isCandidate)
  const toEndpoints = candidates
    .slice(0, mostEndpoints)
    .flatMap(({ endpoint: target, isMasqueraded }): readonly Leg[] => {
      const at = addressOf(target)
      const question = { destination: at.destination, transport: transportOf(protocol, at.port) }
      if (isByRelay) return [{ question, by: 'relay', target, protocol }]
      const mark = isMasqueraded ? on.masqueradeMark : 0
      if (isTranslated) {
        const by = isOwn ? 'translated' : 'arrival'
        return [{ question: { ...question, source: client.address, ...coming, mark }, by, target, protocol }]
      }
      // IPVS tells its lookup the destination alone (do_output_route4, __ip_vs_route_output_v6). Conntrack looks again, as IPVS has
      // changed the destination (nf_nat_ipv4_local_fn); about another machine's source nothing can be asked.
      const own = isOwn ? { source: client.address } : {}
      return [
        { question: { destination: at.destination }, by: 'ipvs', target, protocol },
        { question: { ...question, ...own, mark }, by: 'behind-ipvs', target, protocol },
      ]
    })
  const unasked = Math.max(candidates.length - mostEndpoints, 0)
  return { first: isTranslated && !isOwn ? undefined : first, toEndpoints, unasked }
}

/** The kernel takes no question about SCTP. */
function transportOf(protocol: Packet['protocol'], port: number): RouteQuestion['transport'] {
  return protocol === 'sctp' ? undefined : { protocol, port }
}

interface Losses {
  readonly first: Loss | undefined
  /** The first one of each endpoint. undefined: the kernel routes the packet. */
  readonly toEndpoints: ReadonlyMap<string, Loss | undefined>
}

/** Throws KernelError. */
async function lossesOf({ first, toEndpoints }: Way, reader: LossReader): Promise<Losses> {
  const [firstLoss] = first === undefined ? [] : await reader.read([first])
  const found = new Map<string, Loss | undefined>()
  if (firstLoss !== undefined) return { first: firstLoss, toEndpoints: found }
  const losses = await reader.read(toEndpoints)
  for (const [index, { target }] of toEndpoints.entries())
    found.set(target, found.get(target) ?? losses[index])
  return { first: undefined, toEndpoints: found }
}

function stateOf({ unasked }: Way, { first, toEndpoints }: Losses): RouteAnswer['state'] {
  if (first !== undefined) return 'lost'
  const lost = [...toEndpoints.values()].filter((loss) => loss !== undefined)
  if (lost.length === 0) return 'routed'
  if (lost.length === toEndpoints.size && unasked === 0) return 'lost'
  // The relay takes the next endpoint for a connection of TCP.
  return lost.every(({ isLast }) => isLast) ? 'may-be-lost' : 'routed'
}

function verdictOf({ first, toEndpoints }: Losses): PacketVerdict {
  const fates = new Set(
    [first, ...toEndpoints.values()].flatMap((loss) => (loss === undefined ? [] : [loss.fate])),
  )
  const [fate = 'drop', ...others] = fates
  return others.length === 0 ? fate : 'drop'
}

/** A sentence for each reason, with the endpoints that it concerns. */
function sentences({ first, unasked }: Way, losses: Losses): readonly string[] {
  const all = [...losses.toEndpoints, [first?.target ?? '', losses.first] as const]
  const found = new Map<string, { readonly loss: Loss; readonly targets: string[] }>()
  for (const [target, loss] of all) {
    if (loss === undefined) continue
    const key = `${loss.subject} ${loss.reason}`
    const same = found.get(key) ?? { loss, targets: [] }
    same.targets.push(target)
    found.set(key, same)
  }
  const lines = [...found.values()].map(
    ({ loss: { subject, reason }, targets }) => `${subject} ${listed(targets)}: ${reason}`,
  )
  if (lines.length === 0 || unasked === 0 || losses.first !== undefined) return lines
  return [...lines, `the kernel was not asked for the routes to ${unasked} more endpoints`]
}

function listed(names: readonly string[]): string {
  const more = names.length - mostNames
  return `${names.slice(0, mostNames).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
