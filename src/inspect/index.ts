// In: the parts of a running agent, read only. Out: snapshots: plain JSON values, made when a reader asks.
// Never: a change of any kind, HTTP (server/, control/), words for people (commands/).
// Owner of: nothing; the types of the snapshots.
// Read next: inspected.ts (what is read), status.ts, then control/pages.ts.
export type { Inspected, MetricValue } from './inspected.js'
export {
  ServiceFinder,
  type EndpointEntry,
  type PortEntry,
  type ServiceEntry,
  type ServicePage,
} from './service-finder.js'
export type { Snapshots } from './snapshots.js'
export { status, type FamilyStatus, type StatusSnapshot } from './status.js'
export {
  familyName,
  passSnapshot,
  problemSnapshot,
  type PassSnapshot,
  type ProblemSnapshot,
} from './parts.js'
