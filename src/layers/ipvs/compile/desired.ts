// The desired objects of one route: virtual servers, and whether their addresses are bound, with their set entries.
import type {
  Protocol,
  RealServerList,
  VirtualServerKey,
  VirtualServerSettings,
} from '../../../kernel/index.js'
import type { DesiredSetEntry } from './sets.js'

/** A virtual server without its identity. */
export interface ServerState {
  readonly settings: VirtualServerSettings
  readonly realServers: RealServerList
}

/** A desired virtual server of one route. */
export interface DesiredVirtualServer extends ServerState {
  readonly key: VirtualServerKey
  /** The protocol of its clients, also if it is found by mark; undefined: no route of this run has claimed it. */
  readonly protocol: Protocol | undefined
  /** UDP: the backends that keep their flows even if they are not real servers (`Route.flowBackends`). Empty for other protocols. */
  readonly flowBackends: RealServerList
  /** Whether its address must be local to this node and is not one of the node's own; false for one that is found by mark. */
  readonly bindAddress: boolean
  /** The set entries of its frontend. The owner of the virtual server decides them. */
  readonly entries: readonly DesiredSetEntry[]
}

/** The virtual servers of a route. */
export interface DesiredRoute {
  /** Those of a route without a mark of its own. */
  readonly servers: readonly DesiredVirtualServer[]
  /** Those of the route with this mark. Pure. */
  readonly withMark: (mark: number) => readonly DesiredVirtualServer[]
}
