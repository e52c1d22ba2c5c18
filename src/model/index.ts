// In: ObjectEvents. Out: the dirty ServicePortKeys; a service port and its endpoints by key; health checks; service networks.
// Never: a choice among endpoints (routing/), I/O, a clock.
// Owner of: the last known Services, EndpointSlices and ServiceCIDRs, once per agent, with a part for each IP family.
// Read next: tracker.ts and family-tracker.ts, then routing/route.ts.
export type { HealthCheck } from './health-checks.js'
export {
  compareSeniority,
  type Seniority,
  seniorityReason,
  serviceOfPort,
  servicePortName,
  type ServicePort,
  type ServicePortKey,
} from './service-port.js'
export type { FamilyTracker, PortWithEndpoints, ReportProblems, ServiceView } from './family-tracker.js'
export type { Share } from './dirty-ports.js'
export { type Applied, Tracker } from './tracker.js'
export type { Endpoint } from './endpoint.js'
