// In: what an operator wrote: ConfigInput, or the bytes of a file. Out: Config, or ConfigError with the field's path; the text of
// a file; the news that the file is another one.
// Never: flags' names (cli/), the environment.
// Owner of: defaults and their validation; the fields of files.
// Read next: config.ts; read-config.ts and kube-proxy-fields.ts; then cli/ (who calls it) and agent.ts (who uses the result).
export type { Config, ConfigInput, IptablesConfig, LoggingFormat } from './config.js'
export type { ConfiguredMode, ProxyMode, VipBinding } from './config.js'
export { resolveConfig } from './config.js'
export { formatDuration, parseDuration, parseLimit } from './duration.js'
export { wantedEncodings } from './client.js'
export type { ApiEncoding, ClientConfig, ClientConnection } from './client.js'
export { bits, isQuantity } from './field.js'
export { inputWarnings } from './input-warnings.js'
export { parseYaml } from './parse-yaml.js'
export { readConfig } from './read-config.js'
export { readConfigFile, writeConfigFile } from './files.js'
export { watchConfigFile } from './watch-config.js'
export type { ListenAddress, ServersConfig } from './servers.js'
export { withInert, type InertPath } from './without-effect.js'
export { effectiveConfiguration, formatConfig } from './write-config.js'
export type { ConntrackConfig } from './conntrack.js'
export type { FeatureGates } from './feature-gates.js'
export type { IpvsConfig, IpvsTimeoutConfig } from './ipvs.js'
export type { DetectLocal, DetectLocalMode, NodePortAddresses } from './local-traffic.js'
export { isSchedulerName, readScheduling, type Scheduling, type SchedulerFlag } from './schedulers.js'
export { version } from './version.js'
