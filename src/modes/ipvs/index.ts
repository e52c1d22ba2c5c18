// In: Routes, and the settings of the mode. Out: the virtual servers and set entries that they want; the fixed chains.
// Never: a clock, I/O, what the kernel holds (ledger/), Kubernetes objects.
// Owner of: nothing; compiling is a function.
// Read next: compile.ts (a route), sets.ts, chains.ts (rules on the sets), docs/ipvs.md, then ledger/ledger.ts.
export { compileRoute, type IpvsModeSettings, needsMark } from './compile.js'
export {
  compileChains,
  type FixedChain,
  type IpvsChainSettings,
  type IpvsTable,
  ipvsTables,
  mangleChains,
  type UnfitSets,
} from './chains.js'
export type { DesiredVirtualServer } from './desired.js'
export { asksForScheduling, unmetWishes, type SchedulingSettings } from './scheduling.js'
export {
  type DesiredSetEntry,
  familySetName,
  forbiddingSets,
  formerSets,
  markAddress,
  type SetKey,
  setKeys,
  setName,
  setPrefix,
  setSpec,
  sourceKeepingSets,
} from './sets.js'
