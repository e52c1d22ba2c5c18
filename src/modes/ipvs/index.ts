// In: Routes, the configuration, this node. Out: virtual servers, VIP bindings, sets and fixed chains in the kernel.
// Never: another mode; Kubernetes objects.
// Owner of: nothing. ../../layers/ipvs has the state.
// Read next: mode.ts, compile/compile.ts (a route), ../../layers/ipvs/index.ts, docs/ipvs.md.
export { ipvsKind } from './kind.js'
