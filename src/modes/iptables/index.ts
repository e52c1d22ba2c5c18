// In: Routes, the configuration, this node. Out: chains and rules in the tables nat and filter.
// Never: another mode; Kubernetes objects.
// Owner of: nothing. ../../layers/xtables and ../../layers/nft-table have the state.
// Read next: mode.ts, compile/compile.ts (a route), compile/skeleton.ts, ../../layers/xtables/index.ts, docs/adr/0009.
export { iptablesKind } from './kind.js'
