import { familyOf, parseIpAddress, type IpAddress, type IpFamily } from '../address.js'
import type { NodeObject, ObjectEvent } from '../source/index.js'

/** What the cluster says about the node that we run on. */
export interface NodeFacts {
  readonly name: string
  /** Label topology.kubernetes.io/zone; undefined: none. Remembered when the Node is deleted, as kube-proxy does. */
  readonly zone: string | undefined
  /** The node's IP of each family; absent: not known. Remembered as well: the machine keeps its addresses. */
  readonly addresses: Readonly<Partial<Record<IpFamily, IpAddress>>>
}

/** Which decisions an event may have changed. */
export interface NodeChange {
  /** Topology hints may choose other endpoints. */
  readonly routing: boolean
  /** The preferred source of VIP routes may be another one. */
  readonly vipBinding: boolean
}

const zoneLabel = 'topology.kubernetes.io/zone'
const nothing: NodeChange = { routing: false, vipBinding: false }

/** Keeps the facts of our own Node; other Nodes are none of ours. Pure. */
export class NodeTracker {
  #facts: NodeFacts

  constructor(name: string) {
    this.#facts = { name, zone: undefined, addresses: {} }
  }

  get facts(): NodeFacts {
    return this.#facts
  }

  apply(event: ObjectEvent): NodeChange {
    if (event.type !== 'set' || event.object.kind !== 'Node') return nothing
    const before = this.#facts
    if (event.object.name !== before.name) return nothing
    const zone = event.object.labels[zoneLabel]
    const addresses = nodeAddresses(event.object)
    this.#facts = { name: before.name, zone, addresses }
    const isSame = addresses.ipv4 === before.addresses.ipv4 && addresses.ipv6 === before.addresses.ipv6
    return { routing: zone !== before.zone, vipBinding: !isSame }
  }
}

/** First address of each family, InternalIPs before ExternalIPs, in the Node's order (F-081). Others are skipped. */
export function nodeAddresses(node: Pick<NodeObject, 'addresses'>): NodeFacts['addresses'] {
  const found: Partial<Record<IpFamily, IpAddress>> = {}
  for (const wanted of ['InternalIP', 'ExternalIP']) {
    for (const { type, address } of node.addresses) {
      const parsed = type === wanted ? parseIpAddress(address) : undefined
      if (parsed !== undefined) found[familyOf(parsed)] ??= parsed
    }
  }
  return found
}
