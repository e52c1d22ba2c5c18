// In: the parts of a running agent, read only. Out: snapshots: plain JSON values, made when a reader asks; long lists also as tables.
// Never: a change of any kind, HTTP (server/, control/).
// Owner of: nothing; the types of the snapshots.
// Read next: inspected.ts (what is read), status.ts, services.ts, rows.ts and tables.ts, then control/pages.ts.
export type { Inspected, MetricValue } from './inspected.js'
export {
  ServiceFinder,
  type EndpointEntry,
  type PortEntry,
  type ServiceEntry,
  type ServicePage,
} from './service-finder.js'
export type { Snapshots } from './snapshots.js'
export { configuration, type ConfigurationSnapshot } from './configuration.js'
export { type Conflicts, readConflicts } from './conflicts.js'
export { endpoints, routes, services, type ReadForRows, type Rows, type TableRows } from './services.js'
export type { EndpointRow, RouteRow, ServiceRow } from './rows.js'
export { connections, type ConnectionRow, type Connections } from './connections.js'
export { readCounters, type Counters } from './counters.js'
export { history } from './history.js'
export { status, type FamilyStatus, type StatusSnapshot } from './status.js'
export {
  familyName,
  passSnapshot,
  problemSnapshot,
  type PassSnapshot,
  type ProblemSnapshot,
} from './parts.js'
export { explain, type Explanation, type ExplainQuery } from './explain.js'
export type { Packet, PacketView } from './explain-client.js'
export { explainPacket, type PacketDecision, type PacketStep } from './explain-packet.js'
export {
  type ChainReader,
  FirewallChains,
  type FirewallFate,
  fateAt,
  type Passage,
  Walk,
} from './firewall.js'
export { markAt, type MarkedPacket } from './explain-mark.js'
export { type KernelRoutes, ownSource, withRoutes } from './explain-routes.js'
export { withOtherRules } from './explain-rules.js'
export type { MarkComparison } from './packet-mark.js'
