// In: ObjectEvents, link events, time, and a mode. Out: passes over the mode's layer; metrics, log lines and records of passes.
// Never: a kind of kernel object (modes/); what a Service means (routing/); how bytes look (kernel/).
// Owner of: the tracker, runners, retries of questions, requests for a run, the history of passes. A layer owns its object tables.
// Read next: mode.ts, family-mode.ts and layer.ts (what a mode supplies), intake.ts, synchronizer.ts, family.ts (the loop), pass.ts.
export { Family, type FamilyOptions } from './family.js'
export type { Admission, FamilyMode, FamilyParts, ModeView } from './family-mode.js'
export type { Claim, Layer, LayerState, Look, WriteOptions, Written } from './layer.js'
export { ConflictReports } from './frontend-conflict.js'
export type { FamilyContext, FamilyFacts, TrafficConfig } from './family-context.js'
export type { FamilyHealth } from './backlog.js'
export type { FirstNames } from './name-list.js'
export type { PassPause } from './pass-pause.js'
export { boundedLines } from './bounded-lines.js'
export { type KnownObjects } from './family-intake.js'
export { openKernelWatch, JoinedWatch } from './kernel-watch.js'
export { Intake } from './intake.js'
export {
  type HealthCheckFailure,
  type HealthCheckListeners,
  type ChainNames,
  type CleanUpOptions,
  type CleanUpOutcome,
  type Mode,
  type ModeKernel,
  type ModeKind,
  type ModeOptions,
  type ModeWatch,
  type OpenModeOptions,
  type PipelineAgent,
} from './mode.js'
export type { OperationCount } from './operation-counts.js'
export { type OperationKind, Pass, type PassReason, type PassRecord } from './pass.js'
export type { ExternalAddresses, NatPlace, PacketRules, ServiceMarks } from './packet-rules.js'
export type { PipelineView } from './pipeline.js'
export { KernelQuestions, type KernelQuestionsOptions, type Retry } from './kernel-questions.js'
export { openProblems } from './problems.js'
export {
  type FlowSource,
  type ServiceFlow,
  addCounters,
  countAt,
  type CounterReading,
  type PortCounters,
  type TrafficCounters,
} from './traffic-counters.js'
export { retryStart } from './retry-start.js'
export { type PassStages, StageTimes } from './stage-times.js'
export { logFamily } from './sync-report.js'
export { Synchronizer } from './synchronizer.js'
