// In: Routes, the configuration, this node. Out: chains and rules in the tables nat and filter.
// Never: another mode; Kubernetes objects.
// Owner of: nothing. ../../layers/xtables and ../../layers/nft-table have the state.
// Read next: mode.ts, compile/compile.ts (a route), compile/skeleton.ts, ../../layers/xtables/index.ts, docs/adr/0009.
export { compileRoute } from './compile/compile.js'
export { describeDesired } from './describe.js'
export type { IptablesModeSettings } from './compile/settings.js'
export { compileSkeleton, countedRules } from './compile/skeleton.js'
export { iptablesMode, openIptablesMode } from './mode.js'
export { iptablesKind } from './kind.js'
export { packetRules } from './packet-rules.js'
