// What one route wants of IPVS, of the routes to its VIPs and of the sets.
import type {
  Protocol,
  RealServerList,
  VirtualServerKey,
  VirtualServerSettings,
} from '../../../kernel/index.js'
import type { Backend } from '../../../routing/index.js'
import type { DesiredSetEntry } from './sets.js'

/** A virtual server as one route wants it. */
export interface DesiredVirtualServer {
  readonly key: VirtualServerKey
  /** Of its clients, also where it is found by mark; undefined: no route of this run has claimed it. */
  readonly protocol: Protocol | undefined
  readonly settings: VirtualServerSettings
  readonly realServers: RealServerList
  /** UDP: those that keep their flows when they are no real servers any more, which serve unless none does. */
  readonly flowBackends: readonly Backend[]
  /** Its address has to be local to this node, and is not one of the node's own. Never of one that is found by mark. */
  readonly bindAddress: boolean
  /** What sets say of its frontend; theirs who owns the virtual server. */
  readonly entries: readonly DesiredSetEntry[]
}
