// In: routes, and the kernel's tables. Out: work that every mode does in the same way.
// Never: one mode's own objects.
// Owner of: UDP flows that are to be deleted, health check listeners, held ports.
// Read next: after-sync.ts, conntrack-cleaner.ts, held-ports.ts, watched-ports.ts, xtables-clean-up.ts.
export { type AfterSyncPart } from './after-sync.js'
export { isFirstService } from './first-services.js'
export { releaseUnwanted } from './port-reports.js'
export { openFamily, openWarnings } from './open-family.js'
export { cleanUpXtables, describeKept } from './xtables-clean-up.js'
export { iptablesPacketRules } from './packet-rules.js'
export { restAfterEventsMs, LockReleaseSchedule } from './lock-release-schedule.js'
export { reportRepairs, shortened } from './report-repairs.js'
