// In: Routes, the configuration, this node. Out: virtual servers, VIP bindings, sets and fixed chains in the kernel.
// Never: another mode; Kubernetes objects.
// Owner of: the tables of acknowledged virtual servers, VIP bindings and set entries (tables/).
// Read next: mode.ts, layer.ts, compile/compile.ts (a route), tables/ledger.ts, docs/ipvs.md.
export { ipvsKind } from './kind.js'
