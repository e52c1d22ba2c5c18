// The network namespaces of the traffic table, with their links and servers.
import { servicePort } from '../traffic/table/slot.js'
import {
  addresses,
  elsewhere,
  type Family,
  families,
  type Pair,
  type Place,
  podGateway,
  podNetwork,
  otherPodNetwork,
  privatePort,
  hostNetworkPort,
  type Protocol,
  secondNodeAddress,
  serverPorts,
  virtualNetworks,
} from '../traffic/table/world.js'
import { connect, Namespace, setSysctls } from './namespaces.js'
import { Prober, type ProbeTarget } from './probes.js'

const localPods = [
  { place: 'a0', link: 'pod0' },
  { place: 'a1', link: 'pod1' },
  { place: 'a2', link: 'pod2' },
] as const
const remotePods = [
  { place: 'b0', link: 'pod0' },
  { place: 'b1', link: 'pod1' },
] as const
const places: readonly Place[] = ['node', 'a0', 'a1', 'a2', 'b0', 'b1', 'neighbour', 'outside']

/** The network of node-a, node-b and outside on the fabric. The fabric's ends have .1. */
const underlay = {
  node: { fabric: pair('192.168.60.1', 'fd00:192:168:60::1'), own: addresses.node, link: 'to-a' },
  otherNode: {
    fabric: pair('192.168.61.1', 'fd00:192:168:61::1'),
    own: pair('192.168.61.12', 'fd00:192:168:61::12'),
    link: 'to-b',
  },
  outside: { fabric: pair('192.0.2.1', '2001:db8:2::1'), own: addresses.outside, link: 'to-outside' },
}
const linkPrefix: Readonly<Record<Family, number>> = { IPv4: 24, IPv6: 64 }
const hostPrefix: Readonly<Record<Family, number>> = { IPv4: 32, IPv6: 128 }
/** Routing table for packets from node-b: all go through node-a. */
const detourTable = 100

function pair(ipv4: string, ipv6: string): Pair {
  return { IPv4: ipv4, IPv6: ipv6 }
}

function both(pairs: Pair, prefix: Readonly<Record<Family, number>>): readonly string[] {
  return families.map((family) => `${pairs[family]}/${prefix[family]}`)
}

function ipOption(family: Family): '-4' | '-6' {
  return family === 'IPv4' ? '-4' : '-6'
}

/** Runs commands of ip for each family. */
async function routes(namespace: Namespace, lines: (family: Family) => readonly string[]): Promise<void> {
  for (const family of families) {
    const text = lines(family).join('\n')
    await namespace.must('sh', '-c', `printf '%s\\n' "$1" | ip ${ipOption(family)} -batch -`, 'sh', text)
  }
}

/** The network lab with its servers. It does not include the machine's own namespace. */
export class Topology {
  readonly #namespaces = new Map<string, Namespace>()
  readonly #probers = new Map<Place, Prober>()

  /** Makes all namespaces and links, and starts all servers. Programs no Service. Needs root. */
  static async build(protocols: readonly Protocol[]): Promise<Topology> {
    const topology = new Topology()
    try {
      const names = [...places, 'other-node', 'fabric']
      await Promise.all(names.map(async (name) => topology.#add(name, await Namespace.create(name))))
      await Promise.all(names.map((name) => prepare(topology.namespace(name))))
      // They start while the links are made, because a start is slow in the guest.
      for (const place of places) topology.#probers.set(place, new Prober(topology.namespace(place)))
      await Promise.all([
        topology.#joinFabric().then(() => topology.#joinElsewhere()),
        topology.#joinLocalPods(),
        topology.#joinRemotePods(),
        topology.#joinNeighbour(),
      ])
      await topology.#leadRemotePods()
      await topology.#serve(protocols)
      return topology
    } catch (error) {
      await topology.close()
      throw error
    }
  }

  /** node-a, on which the agent runs. */
  get node(): Namespace {
    return this.namespace('node')
  }

  namespace(name: string): Namespace {
    const namespace = this.#namespaces.get(name)
    if (namespace === undefined) throw new Error(`no namespace ${name}`)
    return namespace
  }

  prober(place: Place): Prober {
    const prober = this.#probers.get(place)
    if (prober === undefined) throw new Error(`no prober at ${place}`)
    return prober
  }

  /** Idempotent. */
  async close(): Promise<void> {
    await Promise.all([...this.#namespaces.values()].map((namespace) => namespace.close()))
  }

  #add(name: string, namespace: Namespace): void {
    this.#namespaces.set(name, namespace)
  }

  async #joinFabric(): Promise<void> {
    const fabric = this.namespace('fabric')
    const ends = [
      { end: underlay.node, namespace: this.node },
      { end: underlay.otherNode, namespace: this.namespace('other-node') },
      { end: underlay.outside, namespace: this.namespace('outside') },
    ]
    for (const { end, namespace } of ends) {
      await connect(
        { namespace: fabric, interfaceName: end.link, addresses: both(end.fabric, linkPrefix) },
        { namespace, interfaceName: 'eth0', addresses: both(end.own, linkPrefix) },
      )
      await routes(namespace, (family) => [`route add default via ${end.fabric[family]}`])
    }
    await routes(fabric, (family) => [
      ...[podNetwork, ...virtualNetworks].map(
        (network) => `route add ${network[family]} via ${underlay.node.own[family]}`,
      ),
      `route add ${secondNodeAddress[family]} via ${underlay.node.own[family]}`,
      `route add ${otherPodNetwork[family]} via ${underlay.otherNode.own[family]}`,
      `route add default via ${underlay.node.own[family]} table ${detourTable}`,
      `rule add iif to-b lookup ${detourTable}`,
      // A packet that node-a did not translate must not loop.
      ...virtualNetworks.map((network) => `rule add iif to-a to ${network[family]} blackhole`),
    ])
  }

  /** Hosts elsewhere are the namespace outside, which never sends from these addresses. */
  async #joinElsewhere(): Promise<void> {
    const lines = Object.values(elsewhere).flatMap((machine) =>
      both(machine, hostPrefix).map(
        (address) => `address add ${address} dev eth0 ${nodad(address)} preferred_lft 0`,
      ),
    )
    await this.namespace('outside').ip(...lines)
  }

  async #joinLocalPods(): Promise<void> {
    const { node } = this
    await node.ip('link add cbr0 type bridge', 'link set cbr0 up')
    await Promise.all(localPods.map(({ place, link }) => this.#joinPod(node, place, link)))
    await node.ip('link set pod2 master cbr0')
    const gateway = both(podGateway, hostPrefix)
    await node.ip(
      ...['pod0', 'pod1', 'cbr0'].flatMap((link) =>
        gateway.map((address) => `address add ${address} dev ${link} ${nodad(address)}`),
      ),
    )
    const ways = { a0: 'pod0', a1: 'pod1', a2: 'cbr0' } as const
    await routes(node, (family) =>
      (['a0', 'a1', 'a2'] as const).map((pod) => `route add ${addresses[pod][family]} dev ${ways[pod]}`),
    )
    await Promise.all(localPods.map(({ place }) => this.#leavePod(place, podGateway)))
  }

  async #joinRemotePods(): Promise<void> {
    const otherNode = this.namespace('other-node')
    const gateway = pair('10.244.2.1', 'fd00:10:244:2::1')
    const joins = remotePods.map(async ({ place, link }) => {
      await this.#joinPod(otherNode, place, link)
      await otherNode.ip(
        ...both(gateway, hostPrefix).map((address) => `address add ${address} dev ${link} ${nodad(address)}`),
      )
      await routes(otherNode, (family) => [
        `route add ${addresses[place][family]} dev ${link}`,
        `rule add iif ${link} lookup ${detourTable}`,
      ])
      await this.#leavePod(place, gateway)
    })
    await Promise.all(joins)
  }

  /** Adds routes to remote pods through the fabric. NB: the fabric must be joined. */
  async #leadRemotePods(): Promise<void> {
    await routes(this.namespace('other-node'), (family) => [
      `route add default via ${underlay.otherNode.fabric[family]} table ${detourTable}`,
    ])
  }

  async #joinPod(node: Namespace, place: Place, link: string): Promise<void> {
    await connect(
      { namespace: node, interfaceName: link, addresses: [] },
      {
        namespace: this.namespace(place),
        interfaceName: 'eth0',
        addresses: both(addresses[place], hostPrefix),
      },
    )
  }

  async #leavePod(place: Place, gateway: Pair): Promise<void> {
    await routes(this.namespace(place), (family) => [
      `route add ${gateway[family]} dev eth0`,
      `route add default via ${gateway[family]}`,
    ])
  }

  /** A machine on the same link as node-a. It sends packets to the loopback network there. */
  async #joinNeighbour(): Promise<void> {
    const neighbour = this.namespace('neighbour')
    await connect(
      { namespace: this.node, interfaceName: 'eth1', addresses: both(secondNodeAddress, linkPrefix) },
      { namespace: neighbour, interfaceName: 'eth0', addresses: both(addresses.neighbour, linkPrefix) },
    )
    await routes(neighbour, (family) => [`route add default via ${secondNodeAddress[family]}`])
    await setSysctls(neighbour, 'net.ipv4.conf.all.route_localnet=1')
    await neighbour.ip(
      'address del 127.0.0.1/8 dev lo',
      `route add 127.0.0.0/8 via ${secondNodeAddress.IPv4} src ${addresses.neighbour.IPv4}`,
    )
  }

  async #serve(protocols: readonly Protocol[]): Promise<void> {
    const pods = [...localPods, ...remotePods].map(({ place }) =>
      this.prober(place).serve(targets(addresses[place], protocols, serverPorts)),
    )
    const node = this.prober('node').serve([
      ...targets(addresses.node, ['TCP'], [hostNetworkPort]),
      { protocol: 'TCP', address: '127.0.0.1', port: privatePort },
    ])
    const others = this.prober('outside').serve(
      Object.values(elsewhere).flatMap((machine) => targets(machine, protocols, [servicePort])),
    )
    await Promise.all([...pods, node, others])
  }
}

function nodad(address: string): string {
  return address.includes(':') ? 'nodad' : ''
}

function targets(
  own: Pair,
  protocols: readonly Protocol[],
  ports: readonly number[],
): readonly ProbeTarget[] {
  return families.flatMap((family) =>
    protocols.flatMap((protocol) => ports.map((port) => ({ protocol, address: own[family], port }))),
  )
}

/**
 * Every namespace forwards, sends every ICMP refusal, can use its addresses at once, and sends no redirects, because node-a forwards
 * packets to the link from which they came.
 */
async function prepare(namespace: Namespace): Promise<void> {
  await setSysctls(
    namespace,
    'net.ipv4.ip_forward=1',
    'net.ipv6.conf.all.forwarding=1',
    'net.ipv4.conf.all.rp_filter=0',
    'net.ipv4.conf.default.rp_filter=0',
    'net.ipv4.conf.all.send_redirects=0',
    'net.ipv4.conf.default.send_redirects=0',
    'net.ipv6.conf.default.accept_dad=0',
    // No ICMP message is rate-limited. For ICMPv6 the only limited type is 255, which does not exist.
    'net.ipv4.icmp_ratemask=0',
    'net.ipv6.icmp.ratemask=255',
  )
}
