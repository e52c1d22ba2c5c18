// In: ObjectEvents, link events, time. Out: a kernel that equals them; metrics and log lines that say how.
// Never: what a Service means (routing/), what the kernel holds (ledger/), how bytes look (kernel/).
// Owner of: when something runs: the runners, retries, reconciles.
// Read next: family-pipeline.ts, then bounded-runner.ts.
export { adviceOn } from './advice.js'
export { cleanUp, describeCleanUp } from './clean-up.js'
export type { Clock } from './clock.js'
export { BoundedRunner, type BoundedRunnerOptions } from './bounded-runner.js'
export { ConntrackCleaner, type ConntrackCleanerOptions } from './conntrack-cleaner.js'
export { FamilyPipeline, type FamilyPipelineOptions } from './family-pipeline.js'
export { inOverlappingCuts } from './overlapping-cuts.js'
export { prepareKernel, type KernelDoors } from './prepare-kernel.js'
export { RetryQueue } from './retry-queue.js'
export { Synchronizer, type SynchronizerOptions } from './synchronizer.js'
export { systemClock } from './system-clock.js'
