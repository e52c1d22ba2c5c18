// In: Routes, the configuration, this node. Out: virtual servers, VIP bindings, sets and fixed chains in the kernel.
// Never: another mode; Kubernetes objects.
// Owner of: the tables of acknowledged virtual servers, VIP bindings and set entries (tables/).
// Read next: mode.ts, layer.ts, compile/compile.ts (a route), tables/ledger.ts, docs/ipvs.md.
export { cleanUp, describeCleanUp, isWithoutIpvs } from './clean-up.js'
export { compileChains, type FixedChain, type IpvsChainSettings, mangleChains } from './compile/chains.js'
export { type IpvsModeSettings, compileRoute, needsMark } from './compile/compile.js'
export { type SchedulingSettings, unmetRequests } from './compile/scheduling.js'
export { type DesiredSetEntry, type SetKey, markAddress, setKeys, setName, setSpec } from './compile/sets.js'
export { describeServers } from './describe.js'
export { ipvsKind } from './kind.js'
export { ipvsMode, openIpvsMode } from './mode.js'
export { prepareKernel } from './prepare-kernel.js'
export { isWithoutIpset } from './set-types.js'
export { IpvsSettings } from './settings.js'
export { type ServerState, advance, diff, equalStates } from './tables/diff.js'
export { MarkTable } from './tables/ipset-marks.js'
export { type DumpedSet, type IpsetBatch, IpsetTable } from './tables/ipset-table.js'
export { IpvsLedger } from './tables/ledger.js'
export { PackedDump } from './tables/packed.js'
export { packetRules } from './packet-rules.js'
