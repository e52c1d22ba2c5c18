import type { Cidr, IpAddress } from '../address.js'
import type { ServicePort, ServicePortKey } from '../model/index.js'
import type { LocalDetector } from '../node/index.js'

/** Packet marks by which a mode leads pods and the node to the endpoints of the cluster under policy Local (F-015). */
export interface ServiceMarks {
  /** The bits that the mode sets. */
  readonly mask: number
  /** A bit that packets may have beside their mark. */
  readonly masqueradeMark: number
  /** The chains that set the mark. */
  readonly chains: readonly string[]
  /** `all-taken`: the service port gets none. undefined: the mode has not compiled it yet, or it needs none. */
  readonly of: (key: ServicePortKey) => number | 'all-taken' | undefined
}

/** The rules of table nat by which a mode treats packets at the hooks prerouting and output. */
export interface NatPlace {
  /** The priority of their chain of type nat. */
  readonly order: number
  /** The chain of Viaduct to which a chain that other programs share jumps. Absent: the mode has chains of its own at the hooks. */
  readonly chain?: string
}

/** The external addresses of a service port. */
export type ExternalAddresses = Pick<ServicePort, 'service' | 'externalIPs' | 'loadBalancerIPs'>

/**
 * How a mode treats new connections in one IP family: its settings, and the choices in which modes differ. Routes decide everything else.
 * For readers that explain packets.
 */
export interface PacketRules {
  /**
   * The other holder of this external address of the service port, such as `Node worker`: the mode does not serve such an address
   * (docs/adr/0028). undefined: there is none. Absent: the mode makes no address local, and serves all.
   */
  readonly foreignHolder?: (port: ExternalAddresses, address: IpAddress) => string | undefined
  /** undefined: traffic of pods cannot be recognized. */
  readonly localDetector: LocalDetector | undefined
  /** F-047. */
  readonly masqueradeAll: boolean
  /** The addresses that serve node ports. `all`: every address of the machine, without loopback addresses. */
  readonly nodePortAddresses: 'all' | readonly IpAddress[]
  /** Loopback networks that serve node ports as well (F-064). */
  readonly loopbackNodePorts: readonly Cidr[]
  /** A loopback address at which the agent itself accepts connections to node ports, and connects to the endpoints. Absent: none. */
  readonly relayedLoopback?: IpAddress | undefined
  /** The node's primary address of the family, which source ranges may allow (F-056). */
  readonly nodeIP: IpAddress | undefined
  /** Networks of cluster IPs: connections to unknown addresses in them are dropped (F-055). */
  readonly droppedNetworks: readonly Cidr[]
  /** The addresses whose unused ports are refused (F-055). */
  readonly refusedPorts: 'none' | 'cluster-ips' | 'vips'
  /** Connections of the node itself to an external frontend without endpoints are refused too (F-053). */
  readonly refusesNode: boolean
  /** The addresses at which a node port without endpoints is refused (F-053). */
  readonly nodePortRefusals: 'none' | 'served-addresses' | 'every-address'
  /** The endpoints that see the node's address when they reach themselves (F-050). */
  readonly hairpin: 'all' | 'this-node'
  /** Source ranges hold at a load-balancer IP that is an external IP as well (F-056). */
  readonly guardsExternalIPs: boolean
  /** Source ranges hold for a Service without endpoints too (F-056). */
  readonly guardsWithoutEndpoints: boolean
  /** Without a local detector, policy Local without an endpoint here has the endpoints of the cluster (F-052). */
  readonly fallsBackToCluster: boolean
  /** The agent itself accepts and connects: endpoints see the node, a TCP drop is a reset, and SCTP is not served. */
  readonly isRelayed: boolean
  /**
   * Whether the agent has a socket at all addresses that takes new clients of the port: also those of local addresses at which no socket
   * serves them. It resets their connections, and discards their datagrams. Absent: the mode has no such sockets.
   */
  readonly listensAtAll?: (protocol: 'tcp' | 'udp', port: number) => boolean
  /** The hook at which the node's firewall sees a connection of another machine: with the endpoint as its destination, or the frontend. */
  readonly firewallHook: 'forward' | 'input'
  /** Absent: the mode has no such rules. */
  readonly nat?: NatPlace
  /**
   * The place in table nat of a rule that keeps rules of other programs behind it from connections to this address (docs/adr/0027).
   * Absent: the mode has no such rules.
   */
  readonly guardOf?: (address: IpAddress) => NatPlace | undefined
  /** Absent: the mode needs no marks for policy Local. */
  readonly marks?: ServiceMarks
  /**
   * Viaduct's own chains in tables that it shares with firewalls. `accepting`: the chains that accept connections, at hook forward those
   * that are masqueraded, at hook input those to a health check port. All others let pass what this explains to be served.
   */
  readonly sharedChains: {
    readonly all: readonly string[]
    readonly accepting: readonly string[]
  }
}
