// In: typed operations (IpvsOp, RouteOp). Out: BatchOutcome, packed dumps.
// Never: policy; the modes decide which object is theirs.
// Owner of: the addon's sockets.
// Read next: a folder per subsystem: ipvs/ipvs.ts (an interface), ipvs/encode.ts; records.ts (the bytes); native/ (the kernel).
export type * from './ipvs/ipvs.js'
export { VirtualServerFlag } from './ipvs/ipvs.js'
export type * from './route/routes.js'
export { formerRouteProtocol, viaductRouteProtocol } from './route/routes.js'
export type * from './route/links.js'
export type * from './system/sysctl.js'
export type * from './outcome.js'
export type * from './conntrack/conntrack.js'
export type * from './nftables/nft-chains.js'
export type * from './nftables/nftables.js'
export type { NftChange, NftChangedObject } from './nftables/changes.js'
export type { NfData, NfExpression, NfExpressionOf, NfVerdict } from './nftables/expressions.js'
export { isSameRule, isSameSet } from './nftables/attributes.js'
export { printTransaction } from './nftables/print.js'
export { NfElements, type NfElementExtras } from './nftables/elements.js'
export { packFields, type NfField, type NfFieldValue } from './nftables/fields.js'
export type * from './look/kernel-look.js'
export type * from './ipset/ipset.js'
export type * from './xtables/xtables.js'
export { xtHooks, XtState } from './xtables/xtables.js'
export { CountersCursor, RealServerCursor, VirtualServerCursor } from './ipvs/cursors.js'
export { IpsetEntryCursor } from './ipset/cursor.js'
export { writeIpsetEntry } from './ipset/encode.js'
export { describeIpsetEntry, describeIpsetOp } from './ipset/describe.js'
export { AddressCursor, RouteCursor } from './route/cursors.js'
export { describeIpvsOp, describeRouteOp, describeVirtualServer } from './describe.js'
export { describeXtRule } from './xtables/describe.js'
export { IpvsBatch, isSameSettings } from './ipvs/batch.js'
export { noRealServers, RealServerList } from './ipvs/real-server-list.js'
export {
  hostPrefixLength,
  ipsetEntryLayout,
  realServerLayout,
  recordBuffer,
  routeLayout,
  virtualServerLayout,
} from './records.js'
export { countCpus } from './system/cpus.js'
export { isSysfsReadOnly } from './system/mounts.js'
export { openKernel, type Kernel, type KernelOptions } from './open-kernel.js'
