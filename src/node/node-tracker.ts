// The facts of this node's Node, of the other Nodes of the cluster, and their changes.
import {
  familyOf,
  formatCidr,
  parseCidr,
  parseIpAddress,
  type Cidr,
  type IpAddress,
  type IpFamily,
} from '../address.js'
import { type NodeObject, type ObjectEvent, readLabels } from '../source/index.js'
import type { Config } from '../config/index.js'
import { ConfigError } from '../errors.js'
import { ApiServerPlaces, type ProtectedPlaces, type ServedPlace } from './protected-places.js'

/** The cluster's facts about this node. */
export interface NodeFacts {
  readonly name: string
  /** Label topology.kubernetes.io/zone; undefined: none. Kept when the Node is deleted, as in kube-proxy. */
  readonly zone: string | undefined
  /** The node's IP of each family; absent: not known. Kept when the Node is deleted: the machine keeps its addresses. */
  readonly addresses: Readonly<Partial<Record<IpFamily, IpAddress>>>
  /** Networks of this node's pods, from the Node. Kept when the Node is deleted. Invalid ones are left out. */
  readonly podCIDRs: readonly Cidr[]
  /** The addresses and ports that no Service takes from the node. */
  readonly places: ProtectedPlaces
  /** The other Nodes, if the source delivers them. The same object at all times. */
  readonly otherNodes: Pick<OtherNodes, 'nodeOf' | 'podNetworkOf'>
}

/** Which decisions an event may have changed. */
export interface NodeChange {
  /** Topology hints may choose other endpoints. */
  readonly routing: boolean
  /** The node's IPs differ, and with them the preferred source of VIP routes. */
  readonly vipBinding: boolean
  /** The rules of a mode may differ: they contain the node's IPs and, with detectLocalMode NodeCIDR, its pods' networks. */
  readonly modeSettings: boolean
  /** `NodeFacts.places` or `NodeFacts.otherNodes` differ: other frontends may be left out. */
  readonly places: boolean
}

/** The change of an event that affects no decision. */
export const noNodeChange: NodeChange = {
  routing: false,
  vipBinding: false,
  modeSettings: false,
  places: false,
}

/** The decisions that either change may have changed. */
export function mergeNodeChanges(one: NodeChange, other: NodeChange): NodeChange {
  if (other === noNodeChange) return one
  return {
    routing: one.routing || other.routing,
    vipBinding: one.vipBinding || other.vipBinding,
    modeSettings: one.modeSettings || other.modeSettings,
    places: one.places || other.places,
  }
}

/** Key of the taint that the cluster's autoscaler sets, with any effect. */
const scaledDown = 'ToBeDeletedByClusterAutoscaler'

/** Keeps the facts of this node's Node and the places of the API server. Of other Nodes it keeps the addresses. Pure. */
export class NodeTracker {
  readonly #bindAddress: IpAddress | undefined
  readonly #apiServer = new ApiServerPlaces()
  readonly #otherNodes = new OtherNodes()
  #facts: NodeFacts
  #primaryFamily: IpFamily
  /** Not known yet: true. A start while the API server is away must not take the node from the load balancers that it serves. */
  #isEligible = true
  #isSeen = false

  /** `bindAddress` replaces the Node's IP of its family (F-082). `agent`: the places that the agent serves. */
  constructor(name: string, bindAddress?: IpAddress, agent: readonly ServedPlace[] = []) {
    this.#bindAddress = bindAddress
    this.#primaryFamily = bindAddress === undefined ? 'ipv4' : familyOf(bindAddress)
    const places = { apiServer: this.#apiServer.places, agent }
    this.#facts = {
      name,
      zone: undefined,
      addresses: this.#withBindAddress({}),
      podCIDRs: [],
      places,
      otherNodes: this.#otherNodes,
    }
  }

  /** The mode listens on the frontends itself. A server of the agent at all addresses then has its port at each of them. */
  noteListeningMode(): void {
    const { places } = this.#facts
    const agent = places.agent.map((place) =>
      place.address === 'all' ? { ...place, address: 'every frontend' as const } : place,
    )
    this.#facts = { ...this.#facts, places: { ...places, agent } }
  }

  get facts(): NodeFacts {
    return this.#facts
  }

  /** The family of `bindAddress`, else of the Node's first IP; IPv4 while none is known (F-081 to F-083). */
  get primaryFamily(): IpFamily {
    return this.#primaryFamily
  }

  /**
   * Whether load balancers may send traffic to this node (F-091): the Node exists, is not being deleted, and has no taint of the
   * cluster's autoscaler. Before all objects have been delivered: true while the Node is not known.
   */
  get isEligible(): boolean {
    return this.#isEligible
  }

  apply(event: ObjectEvent): NodeChange {
    if (event.type === 'delete' && event.kind === 'Node') {
      if (event.key.name !== this.#facts.name) return changeOfPlaces(this.#otherNodes.remove(event.key.name))
      this.#isEligible = false
    }
    if (this.#apiServer.apply(event)) {
      const places = { ...this.#facts.places, apiServer: this.#apiServer.places }
      this.#facts = { ...this.#facts, places }
      return { ...noNodeChange, places: true }
    }
    if (event.type === 'synced' && !this.#isSeen) this.#isEligible = false
    if (event.type !== 'set' || event.object.kind !== 'Node') return noNodeChange
    const before = this.#facts
    if (event.object.name !== before.name) return changeOfPlaces(this.#otherNodes.set(event.object))
    this.#isSeen = true
    this.#isEligible = !event.object.deleted && !event.object.taintKeys.includes(scaledDown)
    const zone = event.object.labels[readLabels.zone]
    const [first] = nodeIPs(event.object)
    if (first !== undefined && this.#bindAddress === undefined) this.#primaryFamily = familyOf(first)
    const addresses = this.#withBindAddress(nodeAddresses(event.object))
    const podCIDRs = event.object.podCIDRs.map(parseCidr).filter((network) => network !== undefined)
    this.#facts = { ...before, zone, addresses, podCIDRs }
    const isSame = addresses.ipv4 === before.addresses.ipv4 && addresses.ipv6 === before.addresses.ipv6
    const hasSamePods = formatAll(podCIDRs) === formatAll(before.podCIDRs)
    return {
      routing: zone !== before.zone,
      vipBinding: !isSame,
      modeSettings: !isSame || !hasSamePods,
      places: false,
    }
  }

  #withBindAddress(addresses: NodeFacts['addresses']): NodeFacts['addresses'] {
    const own = this.#bindAddress
    return own === undefined ? addresses : { ...addresses, [familyOf(own)]: own }
  }
}

function changeOfPlaces(places: boolean): NodeChange {
  return places ? { ...noNodeChange, places } : noNodeChange
}

function formatAll(networks: readonly Cidr[]): string {
  return networks.map(formatCidr).join()
}

/** InternalIPs before ExternalIPs, in the Node's order (F-081). Invalid addresses are skipped. */
function nodeIPs(node: Pick<NodeObject, 'addresses'>): readonly IpAddress[] {
  const texts = ['InternalIP', 'ExternalIP'].flatMap((wanted) =>
    node.addresses.flatMap(({ type, address }) => (type === wanted ? [address] : [])),
  )
  return texts.map(parseIpAddress).filter((address) => address !== undefined)
}

/** The first IP of each family. */
export function nodeAddresses(node: Pick<NodeObject, 'addresses'>): NodeFacts['addresses'] {
  const found: Partial<Record<IpFamily, IpAddress>> = {}
  for (const address of nodeIPs(node)) found[familyOf(address)] ??= address
  return found
}

interface KnownNode {
  readonly addresses: readonly IpAddress[]
  readonly podCIDRs: readonly Cidr[]
}

/** The addresses of the other Nodes of the cluster, of every type that is an IP address, and the networks of their pods. */
export class OtherNodes {
  readonly #nodes = new Map<string, KnownNode>()
  readonly #namesOf = new Map<IpAddress, readonly string[]>()
  /** The number of Nodes by network, as text. */
  readonly #networks = new Map<string, number>()
  /** The number of networks by prefix length. */
  readonly #lengths = new Map<number, number>()

  /** Adds or replaces a Node. Returns whether an address or a network changed. */
  set({
    name,
    addresses: written,
    podCIDRs: networks,
  }: Pick<NodeObject, 'name' | 'addresses' | 'podCIDRs'>): boolean {
    const addresses = written.flatMap(({ address }) => parseIpAddress(address) ?? [])
    const podCIDRs = networks.flatMap((text) => parseCidr(text) ?? [])
    const former = this.#nodes.get(name)
    const next = { addresses, podCIDRs }
    if (former !== undefined && textOf(former) === textOf(next)) return false
    this.remove(name)
    this.#nodes.set(name, next)
    for (const address of addresses) this.#namesOf.set(address, [...(this.#namesOf.get(address) ?? []), name])
    for (const cidr of podCIDRs) this.#count(cidr, 1)
    return true
  }

  /** Returns whether the Node was known. */
  remove(name: string): boolean {
    const known = this.#nodes.get(name)
    if (known === undefined) return false
    this.#nodes.delete(name)
    for (const address of known.addresses) {
      const names = (this.#namesOf.get(address) ?? []).filter((other) => other !== name)
      if (names.length > 0) this.#namesOf.set(address, names)
      else this.#namesOf.delete(address)
    }
    for (const cidr of known.podCIDRs) this.#count(cidr, -1)
    return true
  }

  /** The name of a Node with this address; undefined: none has it. */
  nodeOf(address: IpAddress): string | undefined {
    return this.#namesOf.get(address)?.[0]
  }

  /** The network of another Node's pods that contains the address; undefined: none does. */
  podNetworkOf(address: IpAddress): Cidr | undefined {
    for (const length of this.#lengths.keys()) {
      const cidr = parseCidr(`${address}/${length}`)
      if (cidr !== undefined && this.#networks.has(formatCidr(cidr))) return cidr
    }
    return undefined
  }

  #count(cidr: Cidr, by: 1 | -1): void {
    add(this.#networks, formatCidr(cidr), by)
    add(this.#lengths, cidr.prefixLength, by)
  }
}

function add<K>(counts: Map<K, number>, key: K, by: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + by
  if (count > 0) counts.set(key, count)
  else counts.delete(key)
}

function textOf({ addresses, podCIDRs }: KnownNode): string {
  return `${addresses.join()} ${podCIDRs.map(formatCidr).join()}`
}

/** Name of this node: the override, or the host name in lower case (F-107). Throws ConfigError if the host name is empty. */
export function nodeName(config: Pick<Config, 'hostnameOverride'>, hostname: string): string {
  if (config.hostnameOverride !== undefined) return config.hostnameOverride
  const name = hostname.trim().toLowerCase()
  if (name === '') throw new ConfigError('', 'empty hostname is invalid: set --hostname-override')
  return name
}
