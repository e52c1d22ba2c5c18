// In: Routes, the configuration, this node. Out: the tables `ip kube-proxy` and `ip6 kube-proxy`.
// Never: another mode; Kubernetes objects; tables with other names.
// Owner of: the desired and the acknowledged content of the tables (tables/).
// Read next: mode.ts, pipeline.ts, compile/structure.ts and compile/compile.ts, tables/tables.ts, watch.ts, docs/adr/0019.
export { nftablesKind } from './kind.js'
export { nftablesMode } from './mode.js'
