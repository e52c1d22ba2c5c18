// In: Routes, and the settings of the mode. Out: the chains and rules that they want in the tables nat and filter.
// Never: a clock, I/O, what the kernel holds (ledger/), Kubernetes objects.
// Owner of: the shape of the tables; a DispatchTree holds nothing but the frontends that it was given.
// Read next: compile.ts (a route), skeleton.ts (the rest), dispatch-tree.ts (how packets find them), docs/adr/0009.
export type * from './desired.js'
export type * from './settings.js'
export { compileRoute } from './compile.js'
export { type CountedRule, type CountedRules, compileSkeleton, countedRules } from './skeleton.js'
export { type DispatchChange, DispatchTree } from './dispatch-tree.js'
export { dispatchChains, ownedChains, servicePortName } from './names.js'
