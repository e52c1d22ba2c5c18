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

/** What the cluster says about the node that we run on. */
export interface NodeFacts {
  readonly name: string
  /** Label topology.kubernetes.io/zone; undefined: none. Remembered when the Node is deleted, as kube-proxy does. */
  readonly zone: string | undefined
  /** The node's IP of each family; absent: not known. Remembered as well: the machine keeps its addresses. */
  readonly addresses: Readonly<Partial<Record<IpFamily, IpAddress>>>
  /** Networks of this node's pods, as the Node says; remembered as well. What cannot be read is left out. */
  readonly podCIDRs: readonly Cidr[]
}

/** Which decisions an event may have changed. */
export interface NodeChange {
  /** Topology hints may choose other endpoints. */
  readonly routing: boolean
  /** The preferred source of VIP routes may be another one. */
  readonly vipBinding: boolean
  /** What the rules of a mode say of this node: its IPs, and with detectLocalMode NodeCIDR its pods' networks. */
  readonly modeSettings: boolean
}

const nothing: NodeChange = { routing: false, vipBinding: false, modeSettings: false }

/** Key of the taint that the cluster's autoscaler sets, whatever its effect. */
const scaledDown = 'ToBeDeletedByClusterAutoscaler'

/** Keeps the facts of our own Node; other Nodes are none of ours. Pure. */
export class NodeTracker {
  readonly #bindAddress: NodeFacts['addresses']
  #facts: NodeFacts
  #isEligible = false

  /** `bindAddress` stands for the Node's own IP of its family, whatever the Node says (F-082). */
  constructor(name: string, bindAddress?: IpAddress) {
    this.#bindAddress = bindAddress === undefined ? {} : { [familyOf(bindAddress)]: bindAddress }
    this.#facts = { name, zone: undefined, addresses: this.#bindAddress, podCIDRs: [] }
  }

  get facts(): NodeFacts {
    return this.#facts
  }

  /**
   * Whether load balancers may send traffic to this node (F-091): it is known, is not being deleted, and the cluster's autoscaler
   * does not want it away.
   */
  get isEligible(): boolean {
    return this.#isEligible
  }

  apply(event: ObjectEvent): NodeChange {
    if (event.type === 'delete' && event.kind === 'Node' && event.key.name === this.#facts.name)
      this.#isEligible = false
    if (event.type !== 'set' || event.object.kind !== 'Node') return nothing
    const before = this.#facts
    if (event.object.name !== before.name) return nothing
    this.#isEligible = !event.object.deleted && !event.object.taintKeys.includes(scaledDown)
    const zone = event.object.labels[readLabels.zone]
    const addresses = { ...nodeAddresses(event.object), ...this.#bindAddress }
    const podCIDRs = event.object.podCIDRs.map(parseCidr).filter((network) => network !== undefined)
    this.#facts = { name: before.name, zone, addresses, podCIDRs }
    const isSame = addresses.ipv4 === before.addresses.ipv4 && addresses.ipv6 === before.addresses.ipv6
    const hasSamePods = formatAll(podCIDRs) === formatAll(before.podCIDRs)
    return { routing: zone !== before.zone, vipBinding: !isSame, modeSettings: !isSame || !hasSamePods }
  }
}

function formatAll(networks: readonly Cidr[]): string {
  return networks.map(formatCidr).join()
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
