// The kernel's connection table. Viaduct removes stale flows of connectionless protocols.
import type { IpAddress, IpFamily } from '../../address.js'
import type { Protocol } from '../ipvs/ipvs.js'

/** A frontend. Flows that do not lead to one of its backends are stale. */
export interface ConntrackFrontend {
  readonly protocol: Protocol
  /** undefined: a node port on the addresses that `deleteStale` gets. */
  readonly address: IpAddress | undefined
  readonly port: number
  /** Valid backends. Empty: every flow of the frontend is stale. */
  readonly backends: readonly { readonly address: IpAddress; readonly port: number }[]
}

export interface ConntrackOutcome {
  /** Number of flows read; undefined: the kernel filtered them. */
  readonly seen: number | undefined
  readonly deleted: number
}

/** A connection of a client to a frontend, as the kernel tracks it. */
export interface ConntrackFlow {
  readonly protocol: Protocol
  readonly source: IpAddress
  readonly sourcePort: number
  readonly destination: IpAddress
  readonly destinationPort: number
  /** The backend of a translated flow, or the destination of any other flow. */
  readonly replySource: IpAddress
  readonly replySourcePort: number
  /** In the spelling of conntrack(8). undefined: the protocol is not TCP. */
  readonly tcpState: TcpState | undefined
  /** The entry ends after so many seconds without a packet. */
  readonly timeoutSeconds: number
}

/** The states of enum tcp_conntrack (linux/netfilter/nf_conntrack_tcp.h), in its order. */
export const tcpStates = [
  'NONE',
  'SYN_SENT',
  'SYN_RECV',
  'ESTABLISHED',
  'FIN_WAIT',
  'CLOSE_WAIT',
  'LAST_ACK',
  'TIME_WAIT',
  'CLOSE',
  'SYN_SENT2',
] as const

type TcpState = (typeof tcpStates)[number]

/** The connections to one frontend that have the same endpoint. */
export interface ConntrackFlowCount extends Pick<
  ConntrackFlow,
  'protocol' | 'destination' | 'destinationPort' | 'replySource' | 'replySourcePort'
> {
  /** Of TCP those in state ESTABLISHED, of other protocols all. */
  readonly active: number
  readonly inactive: number
}

export interface ConntrackFlows {
  /** The first ones. */
  readonly flows: readonly ConntrackFlow[]
  /** Number of all. */
  readonly total: number
}

/** The connection table. NB: it has no operation that flushes the whole table. */
export interface Conntrack {
  /**
   * Deletes every flow whose original destination is one of the frontends and that is not translated to one of its backends. A flow
   * without translation, answered from the frontend's address, is deleted too. Flows of other protocols than the frontends' stay.
   * `nodePortAddresses`: the addresses that serve node ports; flows to other addresses do not belong to node ports. Throws KernelError.
   */
  deleteStale(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<ConntrackOutcome>
  /**
   * At most `limit` flows to the frontends, whose backends do not count. Of equal frontends, and of node ports, as `deleteStale`.
   * Throws KernelError.
   */
  listFlows(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
    limit: number,
  ): Promise<ConntrackFlows>
  /**
   * The numbers of flows to the frontends, by destination and backend; made while the reader takes them. Frontends and node ports as for
   * `listFlows`. Throws KernelError.
   */
  countFlows(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<Iterable<ConntrackFlowCount>>
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
