// In: Routes. Out: the virtual servers that they want in the kernel's IPVS table.
// Never: a clock, I/O, what the kernel holds (ledger/), Kubernetes objects.
// Owner of: nothing; compiling is a function.
// Read next: compile.ts, then ledger/ledger.ts.
export { compileRoute, type DesiredVirtualServer } from './compile.js'
export { asksForScheduling, unmetWishes, type SchedulingSettings } from './scheduling.js'
