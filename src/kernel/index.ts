// In: typed operations (IpvsOp, RouteOp). Out: BatchOutcome, packed dumps.
// Never: policy; the modes decide which objects they own.
// Owner of: the addon's sockets.
// Read next: a folder per subsystem: ipvs/ipvs.ts (an interface), ipvs/encode.ts; records.ts (the bytes); native/ (the kernel).
export {
  type Protocol,
  type AddressVirtualServerKey,
  type VirtualServerKey,
  type VirtualServerSettings,
  type RealServerSettings,
  type RealServer,
  type IpvsOp,
  type IpvsDump,
  type IpvsTimeouts,
  type IpvsConnection,
  type Ipvs,
  VirtualServerFlag,
} from './ipvs/ipvs.js'
export {
  type LocalRoute,
  type InterfaceAddress,
  type RouteOp,
  type RouteQuestion,
  type RouteChoice,
  type Routes,
  type Link,
  type LinkEvent,
  type Links,
  type LinkWatch,
  formerRouteProtocol,
  viaductRouteProtocol,
  describePolicyRule,
  describeRouteOp,
} from './route/routes.js'
export type { Sysctl } from './system/sysctl.js'
export type { BatchOutcome, OperationFailure } from './batch.js'
export type { ConntrackFrontend, ConntrackFlow, Conntrack } from './conntrack/conntrack.js'
export type { NftChains } from './nftables/nft-chains.js'
export type {
  NfTableKey,
  NfTable,
  NfHook,
  NfChain,
  NfRule,
  NfSet,
  NfOp,
  NfTransaction,
  NfFailure,
  NfOutcome,
  NfTableState,
  NfChainState,
  NfRuleState,
  NfSetState,
  NfTablePlace,
  Nftables,
  NftWatch,
} from './nftables/nftables.js'
export type { NftChange, NftChangedObject } from './nftables/changes.js'
export type { NfVerdict } from './nftables/data.js'
export type { NfExpression, NfExpressionOf } from './nftables/expressions.js'
export { isSameRule, isUsableSet } from './nftables/attributes.js'
export { describeNfOp, describeSet } from './nftables/describe.js'
export { printElements } from './nftables/print-elements.js'
export { printTransaction } from './nftables/print.js'
export { isOwnTable, type NatGuardTable, natGuardTables } from './nftables/own-tables.js'
export { anonymousSet, elementsOfLookup } from './nftables/anonymous-sets.js'
export { NfElements } from './nftables/elements.js'
export { packFields, type NfField, type NfFieldValue } from './nftables/fields.js'
export type { PortPlace, PortOp, Listener, WatchedPort, Ports } from './ports/ports.js'
export { describePlace } from './ports/real-ports.js'
export type { KernelLook, LookWatch } from './look/kernel-look.js'
export {
  type IpsetType,
  type IpsetSettings,
  type IpsetEntry,
  type IpsetOp,
  type IpsetHeader,
  type Ipset,
  describeIpsetEntry,
  describeIpsetOp,
  ipsetShapes,
} from './ipset/ipset.js'
export {
  type RelayProtocol,
  type RelayEndpoint,
  type RelayService,
  type RelayVerdict,
  type RelayListener,
  type RelayOp,
  type RelayCounters,
  type RelayFlow,
  type RelayConditions,
  type Relay,
  describeRelayListener,
  describeRelayOp,
  wildcardAddress,
} from './relay/relay.js'
export {
  type XtFlavour,
  type XtTableName,
  type XtHook,
  type XtNetwork,
  type XtTarget,
  type XtRule,
  type XtOp,
  type XtApplyOptions,
  type XtOutcome,
  type XtKeptChain,
  type XtRefusal,
  type XtDrift,
  type XtBarrier,
  type RulePackets,
  type Xtables,
  hasLateComment,
  xtHooks,
  XtState,
} from './xtables/xtables.js'
export type { NfHookBarrier } from './xtables/nft/barrier.js'
export { baseChain } from './xtables/nft/base-chains.js'
export { CountersCursor, RealServerCursor, VirtualServerCursor } from './ipvs/cursors.js'
export { IpsetEntryCursor } from './ipset/cursor.js'
export { writeIpsetEntry } from './ipset/encode.js'
export { AddressCursor, RouteCursor } from './route/cursors.js'
export { describeIpvsOp, describeVirtualServer } from './ipvs/servers.js'
export { describeXtRule } from './xtables/describe.js'
export { protocolNumber } from './ipvs/encode.js'
export { IpvsBatch, isSameSettings } from './ipvs/batch.js'
export { listedServerAddress } from './ipvs/real-ipvs.js'
export { noRealServers, RealServerList } from './ipvs/real-server-list.js'
export { hostPrefixLength, recordBuffer } from './records.js'
export { entryLayout as ipsetEntryLayout } from './ipset/layout.js'
export { virtualServerLayout } from './ipvs/layout.js'
export { routeLayout } from './route/layout.js'
export type { XtListedChain, XtListing } from './xtables/listing.js'
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
export type {
  FlowTransaction,
  KernelTransaction,
  LinkTransaction,
  SysctlTransaction,
  XtTransaction,
} from './dry-run/transaction.js'
export { openKernel, type ForeignRules, type Kernel, type KernelClock } from './open-kernel.js'
