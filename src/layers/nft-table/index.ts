// In: Routes, this node. Out: the tables `ip kube-proxy` and `ip6 kube-proxy` of nf_tables.
// Never: a mode; the configuration of a mode; Kubernetes objects; tables with other names, except the copy for a hand-over.
// Owner of: the desired and the acknowledged content of the tables (tables/).
// Read next: layer.ts, compile/structure.ts (the table), compile/compile.ts (a route), tables/table.ts, docs/adr/0019.
export { setNamed, tableName } from './compile/schema.js'
export type { NftModeSettings } from './compile/settings.js'
export type { FixedRules, NodeState } from './fixed-rules.js'
export { copyTable, deleteCopy, handOverTable, isWithoutOwnedTables } from './hand-over.js'
export { openNftPipelines } from './open-pipelines.js'
export { OtherAgents } from './other-agents.js'
export { familiesWithNftables, lackOf } from './probes.js'
export { TransactionPause, transactionPauseMs } from './transaction-pause.js'
export { NftModeWatch } from './watch.js'
