// In: the parts of a running agent, read only. Out: snapshots: plain JSON values, made when a reader asks; long lists also as tables.
// Never: a change of any kind, HTTP (server/, control/).
// Owner of: nothing; the types of the snapshots.
// Read next: inspected.ts (what is read), status.ts, services.ts, rows.ts, then control/pages.ts.
export { type Inspected, passSnapshot, type PassSnapshot, type ProblemSnapshot } from './inspected.js'
export {
  ServiceFinder,
  type EndpointEntry,
  type PortEntry,
  type ServiceEntry,
  type ServicePage,
} from './service-finder.js'
export {
  type Snapshots,
  configuration,
  history,
  status,
  type FamilyStatus,
  type StatusSnapshot,
} from './status.js'
export { endpoints, routes, services, type ReadForRows, type Rows, type TableRows } from './services.js'
export type { EndpointRow, RouteRow, ServiceRow } from './rows.js'
export { connections, type ConnectionRow, type Connections } from './connections.js'
export { readCounters } from './counters.js'
export { explain, type Explanation } from './explain.js'
export { type PacketStep } from './explain-packet.js'
export { FirewallChains, type Passage, Walk } from './firewall.js'
export { isLasting, type KernelOperation, type OperationTool } from './commands/operation.js'
export { printTransactions, refusedSettings } from './commands/print-transactions.js'
export { type Lines, listIpsets, listIpvs, listNft, listRoutes, listXtables } from './commands/list-own.js'
