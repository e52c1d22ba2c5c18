// In: the virtual servers and set entries that routes want. Out: IPVS, ipsets, VIP bindings and the fixed chains of one family.
// Never: a mode; the configuration of a mode; Kubernetes objects.
// Owner of: the tables of acknowledged virtual servers and set entries (tables/), marks, draining real servers.
// Read next: layer.ts, writer.ts (the order of a write), compile/desired.ts, tables/ledger.ts, sets-and-chains.ts, draining.ts, docs/ipvs.md.
export { loadForChains } from './chains.js'
export { type IpvsChainSettings, ipvsTables, mangleChains } from './compile/chains.js'
export type { DesiredRoute, DesiredVirtualServer } from './compile/desired.js'
export {
  type DesiredSetEntry,
  markAddress,
  type SetKey,
  setKeys,
  setName,
  setPrefix,
  setSpec,
} from './compile/sets.js'
export { destroySets, type SetKernel, dumpSets, ownedSetNames } from './sets.js'
export type { IpvsContext, IpvsKernel } from './context.js'
export { IpvsLayer } from './layer.js'
export { checkSetTypes, isLeftProbe, isWithoutIpset } from './set-types.js'
export { IpsetTable } from './tables/ipset-table.js'
export { PackedDump } from './tables/packed.js'
