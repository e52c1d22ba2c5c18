// In: routes, and the kernel's tables. Out: work that every mode does in the same way.
// Never: one mode's own objects.
// Owner of: UDP flows that are to be deleted, health check listeners.
// Read next: conntrack-cleaner.ts, service-health-checks.ts, xtables-clean-up.ts.
export { ConntrackCleaner } from './conntrack-cleaner.js'
export { reportConflict } from './frontend-conflict.js'
export { LocalPolicyGaps } from './local-policy-gaps.js'
export { ServiceHealthChecks } from './service-health-checks.js'
export {
  type XtablesAccess,
  cleanUpXtables,
  describeCleanedTables,
  describeNftLeftovers,
  warnOfNft,
} from './xtables-clean-up.js'
export type { TrafficConfig } from './traffic-config.js'
export { describeKept } from './kept-chain.js'
export { UnlockTimes } from './unlock-times.js'
export { openWarnings } from './warnings.js'
export { shortened } from './shortened.js'
