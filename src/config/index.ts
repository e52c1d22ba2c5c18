// In: what an operator wrote: ConfigInput, the bytes of a file, or the texts of flags.
// Out: Config, or ConfigError with the setting's field; the text of a file; the end of a watch when the file changes.
// Never: process.argv, the environment.
// Owner of: the table of settings: fields, flags, defaults, validation, help.
// Read next: setting.ts (one row) and settings.ts (the table, whole); config-file.ts; then cli/ (arguments) and agent.ts.
export {
  type Config,
  type ConfigInput,
  type ServersConfig,
  type ConntrackConfig,
  type IpvsConfig,
  settings,
  takeFlag,
  resolveConfig,
} from './settings.js'
export type { IptablesFlavour, VipBinding } from './settings-agent.js'
export type { ProxyMode } from './settings-traffic.js'
export type { AnySetting, Flag } from './setting.js'
export { wantedEncodings, type ApiEncoding } from './encodings.js'
export { boolean } from './value-types.js'
export { inputWarnings } from './input-warnings.js'
export { parseYaml } from './parse-yaml.js'
export { readConfig, effectiveConfiguration, formatConfig } from './config-file.js'
export { readConfigFile, writeConfigFile, watchConfigFile } from './files.js'
export type { NodePortAddresses, NodePortKeyword } from './local-traffic.js'
export { isSchedulerName, readScheduling, type Scheduling, type SchedulerFlag } from './schedulers.js'
