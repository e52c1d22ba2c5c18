import type { Config } from '../config/index.js'
import { ConfigError } from '../errors.js'

/** Name of this node: the override, or the host name in lower case (F-107). Throws ConfigError if the host name is empty. */
export function nodeName(config: Pick<Config, 'hostnameOverride'>, hostname: string): string {
  if (config.hostnameOverride !== undefined) return config.hostnameOverride
  const name = hostname.trim().toLowerCase()
  if (name === '') throw new ConfigError('', 'empty hostname is invalid: set --hostname-override')
  return name
}
