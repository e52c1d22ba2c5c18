// In: Routes, the configuration, this node. Out: chains and rules in the tables nat and filter.
// Never: another mode; Kubernetes objects.
// Owner of: the chains and frontends that each route claims (ledger.ts); the addon holds the rules (docs/adr/0010).
// Read next: mode.ts, layer.ts, compile/compile.ts (a route), compile/dispatch-tree.ts, ledger.ts, docs/adr/0009.
export { compileRoute } from './compile/compile.js'
export type { DesiredRoute, DispatchChain, IptablesTable } from './compile/desired.js'
export { DispatchTree } from './compile/dispatch-tree.js'
export { describeDesired } from './describe.js'
export { dispatchChains, ownedChains } from './compile/names.js'
export type { IptablesModeSettings } from './compile/settings.js'
export { type CountedRule, compileSkeleton, countedRules } from './compile/skeleton.js'
export { IptablesLedger } from './ledger.js'
export { iptablesMode, openIptablesMode } from './mode.js'
export { iptablesKind } from './kind.js'
export { packetRules } from './packet-rules.js'
