// In: Routes, the configuration, this node. Out: VIP routes in the kernel; services and listeners of the relay.
// Never: another mode; netfilter; Kubernetes objects.
// Owner of: nothing. ../../layers/vips and ../../layers/relay hold the tables of acknowledged objects.
// Read next: mode.ts, layer.ts, ../../layers/relay/compile/compile.ts (a route), docs/userspace.md.
export { userspaceKind } from './kind.js'
