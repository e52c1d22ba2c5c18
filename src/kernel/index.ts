// In: typed operations (IpvsOp, RouteOp). Out: BatchOutcome, packed dumps.
// Never: policy; who owns an object is the ledger's business.
// Owner of: the addon's sockets.
// Read next: ipvs.ts (the interface), records.ts (the bytes), native/ (the kernel).
export type * from './ipvs.js'
export { VirtualServerFlag } from './ipvs.js'
export type * from './routes.js'
export { formerRouteProtocol, viaductRouteProtocol } from './routes.js'
export type * from './links.js'
export type * from './sysctl.js'
export type * from './outcome.js'
export type * from './conntrack.js'
export type * from './nft-chains.js'
export type * from './kernel-look.js'
export type * from './ipset.js'
export type * from './xtables.js'
export { xtHooks, XtState } from './xtables.js'
export { CountersCursor, RealServerCursor, VirtualServerCursor } from './ipvs-cursors.js'
export { IpsetEntryCursor } from './ipset-cursor.js'
export { writeIpsetEntry } from './ipset-encode.js'
export { describeIpsetEntry, describeIpsetOp } from './describe-ipset.js'
export { AddressCursor, RouteCursor } from './route-cursors.js'
export { describeIpvsOp, describeRouteOp, describeVirtualServer } from './describe.js'
export { describeXtRule } from './describe-xtables.js'
export { IpvsBatch, isSameSettings } from './ipvs-batch.js'
export { noRealServers, RealServerList } from './real-server-list.js'
export {
  hostPrefixLength,
  ipsetEntryLayout,
  realServerLayout,
  recordBuffer,
  routeLayout,
  virtualServerLayout,
} from './records.js'
export { countCpus } from './cpus.js'
export { isSysfsReadOnly } from './mounts.js'
export { openKernel, type Kernel, type KernelOptions } from './open-kernel.js'
