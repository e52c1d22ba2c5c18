// In: counts and times of the other rooms; the state of the process, read per scrape. Out: prom-client metrics in a Registry.
// Never: a series per Service; work between two scrapes.
// Owner of: names, labels and buckets of every metric.
// Read next: metrics.ts; kinds.ts.
export { openMetrics, type FamilyMetrics, type EventLabels, type Metrics } from './metrics.js'
export { openHealthcheckMetrics, type HealthcheckMetrics } from './healthcheck-metrics.js'
export type { CountUp } from './kinds.js'
export {
  openKernelMetrics,
  type PacketTotals,
  openLocalhostNodePortMetrics,
  type LocalhostNodePortCounts,
  type LocalhostNodePortTotals,
  openRelayMetrics,
  type RelayTotals,
} from './scraped-metrics.js'
export { LoopDelays, openProcessMetrics, processStartMs } from './process-metrics.js'
