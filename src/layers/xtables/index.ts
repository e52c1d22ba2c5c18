// In: the chains, rules and frontends that routes want. Out: the tables nat and filter of x_tables, in both flavours.
// Never: a mode; the configuration of a mode; Kubernetes objects; chains with other names.
// Owner of: the chains and frontends that each route claims (ledger.ts); the addon holds the rules (docs/adr/0010).
// Read next: layer.ts, desired.ts, ledger.ts, dispatch-tree.ts, tables.ts, fixed-rules.ts and fixed-chains.ts (flavour nft), docs/adr/0009.
export type {
  DesiredChain,
  DesiredFrontend,
  DesiredRoute,
  DispatchChain,
  IptablesTable,
  Skeleton,
} from './desired.js'
export { differences } from './differences.js'
export { type FixedRuleSource, XtablesFixedRules } from './fixed-rules.js'
export { XtablesLayer } from './layer.js'
export type { LookSchedule } from './look-schedule.js'
export { chainNames, dispatchChains, endpointChain, ownedChains, ServiceChains } from './names.js'
export { type CountedRules, PacketCounts } from './packet-counts.js'
export { type EndpointRules, readCounters } from './read-counters.js'
export { TableLooks } from './table-looks.js'
