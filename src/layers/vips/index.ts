// In: the VIPs that Services need, the kernel's routes and addresses. Out: the operations that make VIPs local.
// Never: a mode; what listens on a VIP.
// Owner of: the table of acknowledged bindings of VIPs.
// Read next: vip-table.ts, vip.ts, vip-place.ts, docs/adr/0004, docs/adr/0005.
export {
  bindingOperations,
  missingVips,
  userspaceRouteMetric,
  type VipCut,
  type VipReading,
  VipTable,
} from './vip-table.js'
export { cleanUpNatGuard, NatGuard, natGuardSet, type NatGuardOptions } from './nat-guard.js'
export { ForeignAddresses } from './foreign-addresses.js'
export {
  bufferOver,
  type PackedAddress,
  packedAddressAt,
  packedAddressOf,
  hostAddresses,
  PackedRoutes,
} from './packed-bindings.js'
export { describeVipRoute, VipBindings } from './vip-bindings.js'
export {
  openVipHints,
  dummyAdvice,
  ensureDummyDevice,
  findDummyDevice,
  findLoopback,
  findVipPlace,
} from './vip-place.js'
export { type Vip, type VipPlace } from './vip.js'
