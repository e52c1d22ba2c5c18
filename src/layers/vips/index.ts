// In: the VIPs that Services need, the kernel's routes and addresses. Out: the operations that make VIPs local.
// Never: a mode; what listens on a VIP.
// Owner of: the table of acknowledged bindings of VIPs.
// Read next: vip-table.ts, vip.ts, vip-place.ts, docs/adr/0004, docs/adr/0005.
export { bindingOperations } from './operations.js'
export { cleanUpNatGuard } from './clean-up-nat-guard.js'
export { NatGuard, natGuardSet, type NatGuardOptions } from './nat-guard.js'
export { ForeignAddresses } from './foreign-addresses.js'
export { missingVips } from './missing-vips.js'
export { bufferOver, type PackedAddress, packedAddressAt, packedAddressOf } from './packed-address.js'
export { hostAddresses, PackedRoutes } from './packed-bindings.js'
export { describeVipRoute, VipBindings, type VipBindingsOptions } from './vip-bindings.js'
export { openVipHints } from './vip-hints.js'
export { type Vip, type VipHolder, type VipPlace } from './vip.js'
export {
  type DummyProblem,
  dummyAdvice,
  ensureDummyDevice,
  findDummyDevice,
  findLoopback,
  findVipPlace,
} from './vip-place.js'
export { userspaceRouteMetric, type VipBatch, type VipCut, type VipReading, VipTable } from './vip-table.js'
