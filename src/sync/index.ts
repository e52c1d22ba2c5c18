// In: ObjectEvents, link events, time. Out: a kernel that equals them; metrics and log lines that say how.
// Never: what a Service means (routing/), what the kernel holds (ledger/), how bytes look (kernel/).
// Owner of: when something runs: the runners, retries, reconciles.
// Read next: synchronizer.ts; family-pipeline.ts (ipvs) or iptables-pipeline.ts; bounded-runner.ts.
export { adviceOn } from './advice.js'
export { Backlog, type BacklogOptions, type FamilyHealth } from './backlog.js'
export type { Change } from './changes.js'
export { cleanUp, describeCleanUp } from './clean-up.js'
export { cleanUpAll } from './clean-up-all.js'
export type { Clock } from './clock.js'
export { BoundedRunner, type BoundedRunnerOptions } from './bounded-runner.js'
export { ConntrackCleaner, type ConntrackCleanerOptions } from './conntrack-cleaner.js'
export { FamilyPipeline, type FamilyPipelineOptions } from './family-pipeline.js'
export {
  cleanUpIptables,
  describeCleanedTables,
  describeNftLeftovers,
  type CleanedTable,
} from './iptables-clean-up.js'
export { Inbox } from './inbox.js'
export { iptablesMode, openIptablesMode } from './iptables-mode.js'
export { ipvsMode } from './ipvs-mode.js'
export { IpvsSettings } from './ipvs-settings.js'
export type { HealthCheckFailure, HealthCheckListeners, Mode, ModeKernel, ModeOptions } from './mode.js'
export { openMode } from './open-mode.js'
export { inOverlappingCuts } from './overlapping-cuts.js'
export type { Pipeline } from './pipeline.js'
export { setConntrack } from './conntrack-settings.js'
export { prepareKernel, type KernelDoors } from './prepare-kernel.js'
export { RetryQueue } from './retry-queue.js'
export { retryStart } from './retry-start.js'
export { ServiceScheduling, type ServiceSchedulingOptions } from './service-scheduling.js'
export { Synchronizer, type SynchronizerOptions } from './synchronizer.js'
export { systemClock } from './system-clock.js'
