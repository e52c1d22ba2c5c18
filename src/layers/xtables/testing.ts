// The inside of this room, for tests and benchmarks. No file of src imports it.
export { DispatchTree } from './dispatch-tree.js'
export { FixedChains } from './fixed-chains.js'
export { IptablesLedger } from './ledger.js'
export type { CountedRule } from './packet-counts.js'
