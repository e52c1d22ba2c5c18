// The network of the traffic table as plain facts: the places with their addresses, and the virtual networks.
//
//   a0 ── pod0 ┐                                ┌ eth0 ── b0
//   a1 ── pod1 ┤ node-a ── fabric ── node-b ────┤
//   a2 ── cbr0 ┘   │          │                 └ eth1 ── b1
//            neighbour     outside
//
// node-a is the node under test. All traffic of the pods of node-b is led through it, so that replies come back on the way
// on which the request went, as they do behind a load balancer or when a client uses node-a as its router.

/** Names as Service.spec.ipFamilies has them. */
export type Family = 'IPv4' | 'IPv6'
export const families: readonly Family[] = ['IPv4', 'IPv6']

/** Where a probe starts, or a server answers. `node`: node-a itself. */
export type Place = 'a0' | 'a1' | 'a2' | 'b0' | 'b1' | 'node' | 'neighbour' | 'outside'
export type Protocol = 'TCP' | 'UDP' | 'SCTP'
export type Pair = Readonly<Record<Family, string>>

export const nodeName = 'node-a'
export const otherNodeName = 'node-b'
export const zone = 'zone-1'

function pair(ipv4: string, ipv6: string): Pair {
  return { IPv4: ipv4, IPv6: ipv6 }
}

/** The address of each place. node-a has a second one, towards `neighbour`. */
export const addresses: Readonly<Record<Place, Pair>> = {
  a0: pair('10.244.1.10', 'fd00:10:244:1::10'),
  a1: pair('10.244.1.11', 'fd00:10:244:1::11'),
  a2: pair('10.244.1.12', 'fd00:10:244:1::12'),
  b0: pair('10.244.2.10', 'fd00:10:244:2::10'),
  b1: pair('10.244.2.11', 'fd00:10:244:2::11'),
  node: pair('192.168.60.11', 'fd00:192:168:60::11'),
  neighbour: pair('192.168.62.12', 'fd00:192:168:62::12'),
  outside: pair('192.0.2.10', '2001:db8:2::10'),
}

/** node-a on its second link. */
export const secondNodeAddress = pair('192.168.62.11', 'fd00:192:168:62::11')
/** node-a as its pods see it: their router, and the source of what is masqueraded towards them. */
export const podGateway = pair('10.244.1.1', 'fd00:10:244:1::1')

export const loopback = pair('127.0.0.1', '::1')

export const podNetwork = pair('10.244.1.0/24', 'fd00:10:244:1::/64')
export const otherPodNetwork = pair('10.244.2.0/24', 'fd00:10:244:2::/64')
export const clusterNetwork = pair('10.244.0.0/16', 'fd00:10:244::/48')

/** By which interface node-a gets what a place sends. */
export const inInterfaces: Readonly<Record<Place, string | undefined>> = {
  a0: 'pod0',
  a1: 'pod1',
  a2: 'cbr0',
  b0: 'eth0',
  b1: 'eth0',
  outside: 'eth0',
  neighbour: 'eth1',
  node: undefined,
}

/** Networks of addresses that exist nowhere: what is sent there through node-a and is not translated is lost. */
export const virtualNetworks: readonly Pair[] = [
  pair('10.96.0.0/16', 'fd00:10:96::/48'),
  pair('10.97.0.0/16', 'fd00:10:97::/48'),
  pair('10.98.0.0/16', 'fd00:10:98::/48'),
]

/**
 * Machines outside that answer on the port of a service: packets that node-a neither translates nor refuses nor drops arrive there.
 */
export const elsewhere = {
  proxied: pair('192.0.2.101', '2001:db8:2::101'),
  guarded: pair('192.0.2.102', '2001:db8:2::102'),
  internal: pair('192.0.2.103', '2001:db8:2::103'),
  external: pair('192.0.2.104', '2001:db8:2::104'),
} as const

/** Every server of a pod listens on these, in every protocol. */
export const serverPorts: readonly number[] = [8080, 8443]
/** TCP servers of node-a itself: a backend in the host's network, and a service that only the node may use (127.0.0.1). */
export const hostNetworkPort = 9376
export const privatePort = 9377

export function familyOf(address: string): Family {
  return address.includes(':') ? 'IPv6' : 'IPv4'
}

/** Node of a place that can be an endpoint. */
export function nodeOf(place: Place): string {
  return place === 'b0' || place === 'b1' ? otherNodeName : nodeName
}

/** A server as it names itself: `10.244.1.10 8080`. */
export function server(place: Place, family: Family, port = 8080): string {
  return `${addresses[place][family]} ${port}`
}

/** The source that a server sees of what node-a masquerades: the address of the link that leads to the server. */
export function masqueradedSource(serverAddress: string): string {
  const family = familyOf(serverAddress)
  const isLocalPod = (['a0', 'a1', 'a2'] as const).some((place) => addresses[place][family] === serverAddress)
  return isLocalPod ? podGateway[family] : addresses.node[family]
}
