// In: Routes, the configuration, this node; the kernel. Out: the sets, chains and rules of table kube-proxy, and the elements of
// each route; the tables of kube-proxy's nftables mode removed.
// Never: another mode; tables with other names; Kubernetes objects.
// Owner of: nothing.
// Read next: compile/structure.ts (the table), compile/compile.ts (a route), compile/schema.ts (the sets), kind.ts, clean-up.ts.
export type { FrontendUse, StructureUse } from './compile/chain-plan.js'
export { compileRoute } from './compile/compile.js'
export type { DesiredFrontend, DesiredRoute, Hairpin } from './compile/desired.js'
export { type DesiredElement, elementsOf } from './compile/elements.js'
export { maxEndpoints, type NftSchema, schemaOf } from './compile/schema.js'
export type { NftModeSettings } from './compile/settings.js'
export { compileStructure, type Structure, type StructureChain } from './compile/structure.js'
export { describeDesired } from './describe.js'
export { nftablesKind } from './kind.js'
export { type NftSizes, NftTables, type NftTablesOptions, type NftWriteOptions } from './tables/tables.js'
export { looksAtAddresses, type NftConfig, nftSettings } from './node-settings.js'
