// The inside of this room, for tests and benchmarks. No file of src imports it.
export { type FixedChain, compileChains } from './compile/chains.js'
export type { ServerState } from './compile/desired.js'
export { advance, equalStates, planServer } from './tables/server-kind.js'
export { MarkTable } from './tables/ipset-marks.js'
export { type DumpedSet, type IpsetBatch } from './tables/ipset-table.js'
export { IpvsLedger } from './tables/ledger.js'
export { needsMark } from './marks.js'
