// In: typed operations (IpvsOp, RouteOp). Out: BatchOutcome, packed dumps.
// Never: policy; the modes decide which objects they own.
// Owner of: the addon's sockets.
// Read next: a folder per subsystem: ipvs/ipvs.ts (an interface), ipvs/encode.ts; records.ts (the bytes); native/ (the kernel).
export type * from './ipvs/ipvs.js'
export { describeIpvsOp, describeVirtualServer, VirtualServerFlag } from './ipvs/servers.js'
export {
  describeRouteOp,
  formerRouteProtocol,
  viaductRouteProtocol,
  describePolicyRule,
} from './route/routes.js'
export type * from './route/routes.js'
export type { Sysctl } from './system/sysctl.js'
export type { BatchOutcome, OperationFailure } from './batch.js'
export type * from './conntrack/conntrack.js'
export type * from './nftables/nft-chains.js'
export type * from './nftables/nftables.js'
export type { NftChange, NftChangedObject } from './nftables/changes.js'
export type { NfExpression, NfVerdict } from './nftables/expressions.js'
export { isSameRule, isUsableSet } from './nftables/attributes.js'
export { printTransaction } from './nftables/print.js'
export { isOwnTable, type NatGuardTable, natGuardTables } from './nftables/own-tables.js'
export { NfElements } from './nftables/elements.js'
export { packFields, type NfField, type NfFieldValue } from './nftables/fields.js'
export type * from './ports/ports.js'
export { describePlace } from './ports/real-ports.js'
export type { KernelLook, LookWatch } from './look/kernel-look.js'
export type * from './ipset/ipset.js'
export type * from './relay/relay.js'
export { describeRelayListener, describeRelayOp, wildcardAddress } from './relay/relay.js'
export type * from './xtables/xtables.js'
export type { NfHookBarrier } from './xtables/nft/barrier.js'
export { baseChain } from './xtables/nft/base-chains.js'
export { xtHooks, XtState } from './xtables/xtables.js'
export { CountersCursor, RealServerCursor, VirtualServerCursor } from './ipvs/cursors.js'
export { IpsetEntryCursor } from './ipset/cursor.js'
export { writeIpsetEntry } from './ipset/encode.js'
export { describeIpsetEntry, describeIpsetOp } from './ipset/ipset.js'
export { AddressCursor, RouteCursor } from './route/cursors.js'
export { describeXtRule } from './xtables/describe.js'
export { protocolNumber } from './ipvs/encode.js'
export { IpvsBatch, isSameSettings } from './ipvs/batch.js'
export { listedServerAddress } from './ipvs/real-ipvs.js'
export { noRealServers, RealServerList } from './ipvs/real-server-list.js'
export { hostPrefixLength, recordBuffer } from './records.js'
export { entryLayout as ipsetEntryLayout } from './ipset/layout.js'
export { virtualServerLayout } from './ipvs/layout.js'
export { routeLayout } from './route/layout.js'
export type { XtListing } from './xtables/listing.js'
export {
  KernelModules,
  describeLack,
  type KernelLack,
  compatModules,
  extensionModules,
  legacyModules,
  mangleModules,
  setModules,
} from './system/modules.js'
export { isLasting, type KernelOperation, type OperationTool } from './recorded/operation.js'
export { type Lines, listIpsets, listIpvs, listNft, listRoutes, listXtables } from './listings/list-own.js'
export { recordKernel } from './recorded/recorder.js'
export { type ChainPlace, describeChainPlace, nftFamilyNames } from './marks/mark-uses.js'
export {
  conntrackPriority,
  type FirewallChain,
  type FirewallEntrance,
  type FirewallHook,
  type FirewallRule,
  type MarkChange,
  natPriority,
} from './firewall/firewall.js'
export { openKernel, type ForeignRules, type Kernel, type KernelClock } from './open-kernel.js'
export type { LookFinding } from './addon.js'
