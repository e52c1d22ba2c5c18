// The lookups of routes that the kernel makes for a packet, and the fate of a packet that it does not route.
import { familyOf, type IpAddress, type IpFamily, isLinkLocal } from '../address.js'
import type { RouteChoice, RouteQuestion } from '../kernel/index.js'
import type { Packet } from './explain-client.js'
import type { Inspected } from './inspected.js'

/** The interface by which a packet comes in. */
export interface Entrance {
  readonly index: number
  readonly name: string
  readonly isAssumed: boolean
  /** The source of the packet. */
  readonly source: IpAddress
}

/** A lookup. */
export interface Leg {
  readonly question: RouteQuestion
  /**
   * `arrival`: of a packet that comes in. `sender`: for a socket of the node. `translated`: again, as the destination of the node's own
   * packet has changed; `behind-ipvs`: likewise. `ipvs` and `relay`: of these, for the way to the endpoint.
   */
  readonly by: 'arrival' | 'sender' | 'translated' | 'ipvs' | 'behind-ipvs' | 'relay'
  /** The destination, as sentences name it. */
  readonly target: string
  readonly protocol: Packet['protocol']
}

export interface Loss {
  /** `refuse`: the client gets an ICMP error, or an error of its own system call. */
  readonly fate: 'drop' | 'refuse' | 'reset'
  /** The beginning of a sentence that ends with the destination. */
  readonly subject: string
  /** A phrase, with the kernel's answer. */
  readonly reason: string
  /** False: another endpoint is taken. */
  readonly isLast: boolean
}

type Errno = Extract<RouteChoice, { readonly isRouted: false }>['errno']

/** Asks the kernel about the legs of one packet, which comes in by `entrance`; undefined: the node sends it. Throws KernelError. */
export class LossReader {
  readonly #entrance: Entrance | undefined
  readonly #routing: Inspected['routing']
  /** Read once for all endpoints. */
  #links: ReturnType<Inspected['routing']['links']> | undefined

  constructor(entrance: Entrance | undefined, routing: Inspected['routing']) {
    this.#entrance = entrance
    this.#routing = routing
  }

  /** In the order of the legs. undefined: the kernel routes the packet. */
  async read(legs: readonly Leg[]): Promise<readonly (Loss | undefined)[]> {
    const choices = await this.#routing.lookUp(legs.map(({ question }) => question))
    const losses: (Loss | undefined)[] = []
    for (const [index, leg] of legs.entries()) {
      const choice = choices[index]
      losses.push(choice && (await this.#loss(leg, choice)))
    }
    return losses
  }

  async #loss(leg: Leg, choice: RouteChoice): Promise<Loss | undefined> {
    if (choice.isRouted) return choice.isLocal ? undefined : await this.#unforwarded(leg, choice)
    const subject = subjects[leg.by]
    const { errno } = choice
    const isTcpOfRelay = leg.by === 'relay' && leg.protocol === 'tcp'
    if (leg.by !== 'arrival')
      return { fate: fateOf(leg, errno), subject, reason: reasonOf(errno), isLast: !isTcpOfRelay }
    // Without forwarding the kernel has no other answer for an address of another machine, and sends no ICMP error.
    const unforwarded = errno === 'EINVAL' || errno === 'EXDEV' ? undefined : await this.#unforwarded(leg)
    if (unforwarded !== undefined) return unforwarded
    const reason = await this.#reasonOnArrival(leg, errno)
    return { fate: fateOf(leg, errno), subject, reason, isLast: true }
  }

  /** The loss of a packet that this node would have to forward. IPVS sends the packet itself, but the reply of the endpoint is forwarded. */
  async #unforwarded(
    { by, question }: Leg,
    onward?: Extract<RouteChoice, { readonly isRouted: true }>,
  ): Promise<Loss | undefined> {
    if (this.#entrance === undefined || (by !== 'arrival' && by !== 'ipvs')) return undefined
    const family = familyOf(question.destination)
    const name = by === 'arrival' ? this.#entrance.name : await this.#nameOf(onward?.interfaceIndex)
    if (name === undefined) return undefined
    const setting = await this.#closingSetting(family, name)
    if (setting === undefined)
      return onward !== undefined && by === 'arrival' ? this.#fromLinkLocal() : undefined
    const reason = `this node does not forward packets that come in by ${name} (/proc/sys/${setting} is 0)`
    const subject = by === 'arrival' ? subjects.arrival : 'there are no replies from'
    return { fate: 'drop', subject, reason, isLast: true }
  }

  /** ip6_forward() sends an ICMP error. */
  #fromLinkLocal(): Loss | undefined {
    const source = this.#entrance?.source
    if (source === undefined || !isLinkLocal(source)) return undefined
    const reason = `the kernel forwards no packet of the link-local address ${source}`
    return { fate: 'refuse', subject: subjects.arrival, reason, isLast: true }
  }

  async #nameOf(interfaceIndex: number | undefined): Promise<string | undefined> {
    this.#links ??= this.#routing.links()
    return (await this.#links).find(({ index }) => index === interfaceIndex)?.name
  }

  /**
   * The setting because of which the node does not forward packets that come in by an interface; undefined: it does. IPv4:
   * IN_DEV_FORWARD() of ip_route_input_slow(), for each interface. IPv6: ip6_forward(), after the lookup, for all interfaces; newer kernels
   * have an exception.
   */
  async #closingSetting(family: IpFamily, name: string): Promise<string | undefined> {
    const isIpv6 = family === 'ipv6'
    const path = isIpv6 ? 'net/ipv6/conf/all/forwarding' : `net/ipv4/conf/${name}/forwarding`
    if ((await this.#routing.sysctl(path)) !== '0') return undefined
    const isForced = isIpv6 && (await this.#routing.sysctl(`net/ipv6/conf/${name}/force_forwarding`)) === '1'
    return isForced ? undefined : path
  }

  /** EINVAL has several causes where a packet comes in (fib_validate_source, blackhole routes). */
  async #reasonOnArrival({ question }: Leg, errno: Errno): Promise<string> {
    const entrance = this.#entrance
    if ((errno !== 'EINVAL' && errno !== 'EXDEV') || entrance === undefined) return reasonOf(errno)
    if (familyOf(question.destination) === 'ipv6') return reasonOf(errno)
    const { name, index, source } = entrance
    const { destination, mark = 0, transport } = question
    const [onward, back] = await this.#routing.lookUp([
      { destination, mark, transport },
      { destination: source },
    ])
    if (onward?.isRouted === false && onward.errno === 'EINVAL') return reasonOf(errno)
    const filter = await this.#reversePathFilter(name)
    const leaves = back?.isRouted === true ? back.interfaceIndex : undefined
    if (filter === 1 && leaves !== index)
      return `rp_filter of ${name} is 1, and packets to ${source} do not leave by it (${errno})`
    if (filter === 2 && leaves === undefined)
      return `rp_filter of ${name} is 2, and there is no route to ${source} (${errno})`
    return `the kernel takes no packet from ${source} that comes in by ${name} (${errno})`
  }

  /** The greater value holds (IN_DEV_RPFILTER of linux/inetdevice.h). */
  async #reversePathFilter(name: string): Promise<number> {
    const read = async (of: string): Promise<number> =>
      Number((await this.#routing.sysctl(`net/ipv4/conf/${of}/rp_filter`)) ?? 0)
    return Math.max(await read('all'), await read(name))
  }
}

const subjects: Readonly<Record<Leg['by'], string>> = {
  arrival: 'the kernel does not route the packet to',
  sender: 'the kernel does not route the packet to',
  translated: 'the kernel does not route the packet to',
  ipvs: 'IPVS has no route to',
  'behind-ipvs': 'the kernel does not route the packet of IPVS to',
  relay: 'the relay has no route to',
}

/** The errors of routes and of policy routing rules (fib_props, fib4_rule_action, fib6_rule_action). */
function reasonOf(errno: Errno): string {
  switch (errno) {
    case 'ENETUNREACH':
      return 'no route, or a rule of type unreachable (ENETUNREACH)'
    case 'EHOSTUNREACH':
      return 'a route of type unreachable (EHOSTUNREACH)'
    case 'EACCES':
      return 'a route or a rule of type prohibit (EACCES)'
    case 'EINVAL':
      return 'a route or a rule of type blackhole (EINVAL)'
    default:
      return `the kernel says ${errno}`
  }
}

/** The kernel sends an ICMP error for what it does not route, but none for a blackhole and a wrong source (ip_error, ip6_pkt_drop). */
function fateOf({ by, protocol }: Leg, errno: Errno): Loss['fate'] {
  switch (by) {
    case 'arrival':
      return errno === 'EINVAL' || errno === 'EXDEV' ? 'drop' : 'refuse'
    case 'sender':
    case 'ipvs':
      return 'refuse'
    case 'translated':
      // TCP repeats a packet that cannot leave; a datagram is refused at once.
      return protocol === 'udp' ? 'refuse' : 'drop'
    case 'behind-ipvs':
      return 'drop'
    case 'relay':
      return protocol === 'tcp' ? 'reset' : 'drop'
  }
}
