// In: what an operator wrote (ConfigInput). Out: Config, or ConfigError with the field's path.
// Never: flags' names (cli/), the environment, files.
// Owner of: defaults and their validation.
// Read next: config.ts; then cli/ (who calls it) and agent.ts (who uses the result).
export type { Config, ConfigInput, IptablesConfig, LoggingFormat } from './config.js'
export type { ProxyMode, VipBinding } from './config.js'
export { resolveConfig } from './config.js'
export { parseDuration } from './duration.js'
export type { ConntrackConfig } from './conntrack.js'
export type { FeatureGates } from './feature-gates.js'
export type { IpvsConfig, IpvsTimeoutConfig } from './ipvs.js'
export type { DetectLocal, DetectLocalMode, NodePortAddresses } from './local-traffic.js'
export { isSchedulerName, readScheduling, type Scheduling, type SchedulerFlag } from './schedulers.js'
export { version } from './version.js'
