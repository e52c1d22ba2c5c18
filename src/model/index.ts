// In: ObjectEvents. Out: the dirty ServicePortKeys; a service port and its endpoints by key; health checks; service networks.
// Never: a choice among endpoints (routing/), I/O, a clock.
// Owner of: the last known Services, EndpointSlices and ServiceCIDRs, for one IP family.
// Read next: tracker.ts, then routing/route.ts.
export type { HealthCheck } from './health-checks.js'
export {
  compareSeniority,
  type Seniority,
  seniorityReason,
  servicePortName,
  type ServicePort,
  type ServicePortKey,
} from './service-port.js'
export { Tracker, type ServiceView } from './tracker.js'
export type { Endpoint } from './endpoint.js'
