import { type Cidr, formatCidr, type IpAddress, parseCidr, parseIpAddress } from '../address.js'
import type { NodeObject } from '../source/index.js'

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
