import {
  type Cidr,
  type IpAddress,
  type IpFamily,
  familyOf,
  formatEndpoint,
  parseIpAddress,
} from '../../address.js'
import type { BatchOutcome } from '../batch.js'
import { BugError } from '../../errors.js'

/** The relay serves no SCTP. */
export type RelayProtocol = 'tcp' | 'udp'

export interface RelayEndpoint {
  readonly address: IpAddress
  readonly port: number
}

/** The endpoints of one service port. Its listeners share the round robin and the affinity. */
export interface RelayService {
  /** Chosen by the caller; 1 to 2^32 - 1. */
  readonly id: number
  /** ClientIP affinity: seconds since the last new connection or flow of a client. undefined: none. */
  readonly affinitySeconds: number | undefined
  /** Endpoints for traffic under policy Cluster. */
  readonly clusterEndpoints: readonly RelayEndpoint[]
  /** Endpoints for traffic under policy Local. */
  readonly localEndpoints: readonly RelayEndpoint[]
  /** Endpoints that keep their UDP flows, also if they get no new ones. Not used for TCP. */
  readonly flowEndpoints: readonly RelayEndpoint[]
  /** Clients of listeners with `hasSourceRanges` that may connect. */
  readonly sourceRanges: readonly Cidr[]
}

/**
 * The treatment of a new connection or flow. `cluster`, `local`: the next endpoint of that list; with an empty list, as `refuse`. `refuse`: a
 * reset; a UDP datagram is discarded. `drop`: as `refuse`, since a socket cannot ignore a connection.
 * The verdict holds for new flows; those that exist go on. A UDP listener that serves neither near nor far clients keeps its port, and the
 * kernel answers new clients with an ICMP error (with more than 1,024 flows their datagrams are discarded).
 */
export type RelayVerdict = 'cluster' | 'local' | 'refuse' | 'drop'

/**
 * A socket that listens on one address and port, or on all addresses of node ports (`wildcardAddress`). Its identity: protocol, address,
 * port. A client of a single address gets the listener of that address, if there is one.
 */
export interface RelayListener {
  readonly protocol: RelayProtocol
  /** An address of this machine, or the wildcard. */
  readonly address: IpAddress
  readonly port: number
  /** Id of a service that was set before. */
  readonly service: number
  /** For clients of this machine and of its own pods (RelaySettings). */
  readonly near: RelayVerdict
  /** For other clients. */
  readonly far: RelayVerdict
  /** True: only clients in `sourceRanges` of the service are served. Others get `drop`. */
  readonly hasSourceRanges: boolean
}

/** The identity of a listener. */
export type RelayAddress = Pick<RelayListener, 'protocol' | 'address' | 'port'>

/** Operations by name. `name`: the service, for errors and logs. */
interface RelayOps {
  /** Creates or replaces. UDP flows stay if their endpoint is in `flowEndpoints`, and end at once if not. TCP connections stay. */
  'set-service': { readonly service: RelayService; readonly name: string }
  /** ENOENT when absent, EBUSY while a listener refers to it. Its connections and flows go on until they end. */
  'remove-service': { readonly id: number; readonly name: string }
  /**
   * Opens or changes. EADDRINUSE, for a wildcard if another program has the port at any address; EOPNOTSUPP for a wildcard on a kernel
   * that does not tell the destination of datagrams; EACCES, EMFILE; EADDRNOTAVAIL for an IPv4 address that is not local; ENOENT without
   * the service. IPv6: the kernel does not count a local route as an address, so that the listener opens without a check.
   */
  'set-listener': { readonly listener: RelayListener }
  /** ENOENT when absent. TCP connections go on until they end; UDP flows end. */
  'remove-listener': { readonly listener: RelayAddress }
}
export type RelayOp = { readonly [K in keyof RelayOps]: { readonly op: K } & RelayOps[K] }[keyof RelayOps]

export interface RelaySettings {
  /** Addresses of this machine and networks of its own pods. */
  readonly nearNetworks: readonly Cidr[]
  /** Interfaces of its own pods: exact names, or prefixes that end in `+`. */
  readonly nearInterfaces: readonly string[]
  /** A UDP flow ends after this time without a datagram in either direction. */
  readonly udpIdleMs: number
  /**
   * At which wildcards serve. A connection to another local address, such as a VIP, is reset, and a datagram is discarded: the kernel cannot
   * refuse either on a socket for all addresses.
   */
  readonly nodePortAddresses: readonly IpAddress[]
}

/** Totals since the relay was opened, and current numbers. */
export interface RelayCounters {
  readonly listeners: number
  readonly connections: number
  readonly flows: number
  readonly acceptedConnections: number
  /** No endpoint accepted the connection. */
  readonly failedConnections: number
  /** Refused or dropped by a verdict. */
  readonly refusedConnections: number
  /** Refused because file descriptors are short. */
  readonly shedConnections: number
  readonly startedFlows: number
  /** Ended before their idle time, to make room for newer ones. */
  readonly evictedFlows: number
  /** TCP connections and UDP datagrams that were discarded because they came with the last hop. */
  readonly spentHops: number
  readonly receivedBytes: number
  readonly sentBytes: number
}

/** A TCP connection or UDP flow. */
export interface RelayFlow {
  readonly protocol: RelayProtocol
  readonly client: RelayEndpoint
  readonly frontend: RelayEndpoint
  readonly endpoint: RelayEndpoint
  /** False: the endpoint has not accepted the connection yet. */
  readonly isConnected: boolean
}

/** The present conditions of the relay. In a shortage, the services with the most connections or flows get no more, or lose their oldest flows. */
export interface RelayConditions {
  readonly hasFewDescriptors: boolean
  readonly hasFewUdpPorts: boolean
  /** All local ports have connections to one endpoint. */
  readonly hasFewTcpPorts: boolean
  /** A UDP listener on all addresses is closed to new clients, since another program took its port while it had no endpoints. */
  readonly hasTakenPort: boolean
  /** An endpoint is a frontend of the relay itself; such connections are refused. */
  readonly hasLoop: boolean
  /** At least ten connections or datagrams per second came with the last hop, as those do that go round over the relays of several nodes. */
  readonly hasSpentHops: boolean
  /** The limit of file descriptors that the relay works with. Held ports are among them. */
  readonly descriptorLimit: number
  /** The most UDP flows at a time: each one needs a local port of the node. */
  readonly udpPortLimit: number
}

/**
 * A proxy in user space on own threads. It listens on frontends, and copies bytes between clients and endpoints. Operations of one batch
 * are applied in order, without rollback; a failure does not stop the later ones.
 */
export interface Relay {
  /** Replaces the settings; they hold for new connections and flows. */
  configure(settings: RelaySettings): Promise<void>
  apply(ops: readonly RelayOp[]): Promise<BatchOutcome>
  counters(): Promise<RelayCounters>
  /** The connections and flows of a family now, in no order; made while the reader takes them. */
  flows(family: IpFamily): Promise<Iterable<RelayFlow>>
  /** Resolves at the next change of the conditions; undefined after close. */
  nextConditions(): Promise<RelayConditions | undefined>
  /** Closes listeners, connections and flows. Idempotent. */
  close(): Promise<void>
}

/** `tcp 10.96.0.10:53`. */
export function describeRelayListener({ protocol, address, port }: RelayAddress): string {
  return `${protocol} ${formatEndpoint(address, port)}`
}

/** The object of the operation: `tcp 10.96.0.10:53`, `ipv4 default/dns:dns/UDP`. */
export function describeRelayOp(op: RelayOp): string {
  switch (op.op) {
    case 'set-service':
    case 'remove-service':
      return op.name
    case 'set-listener':
    case 'remove-listener':
      return describeRelayListener(op.listener)
  }
}

/** The family of a listener. A service may have endpoints of both families. */
export function familyOfRelayOp(op: RelayOp): IpFamily | 'none' {
  return 'listener' in op ? familyOf(op.listener.address) : 'none'
}

/** The address of a listener on all addresses of node ports (RelaySettings). */
export const wildcardAddress: Readonly<Record<IpFamily, IpAddress>> = {
  ipv4: constantAddress('0.0.0.0'),
  ipv6: constantAddress('::'),
}

function constantAddress(text: string): IpAddress {
  const address = parseIpAddress(text)
  if (address === undefined) throw new BugError(`${text} is not an address`)
  return address
}
