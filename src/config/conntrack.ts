import { ConfigError } from '../errors.js'

/** What the kernel's connection tracking is set to at start; 0 and false leave a setting alone. */
export interface ConntrackConfig {
  /** Connections for each CPU of the machine. */
  readonly maxPerCore: number
  /** At least so many connections, however few CPUs there are. */
  readonly min: number
  readonly tcpEstablishedTimeoutMs: number
  readonly tcpCloseWaitTimeoutMs: number
  readonly tcpBeLiberal: boolean
  readonly udpTimeoutMs: number
  readonly udpStreamTimeoutMs: number
}

export type ConntrackInput = { readonly [K in keyof ConntrackConfig]?: ConntrackConfig[K] | undefined }

export function resolveConntrack(input: ConntrackInput): ConntrackConfig {
  return {
    maxPerCore: notNegative('maxPerCore', input.maxPerCore ?? 32_768),
    min: notNegative('min', input.min ?? 131_072),
    tcpEstablishedTimeoutMs: notNegative(
      'tcpEstablishedTimeout',
      input.tcpEstablishedTimeoutMs ?? 86_400_000,
    ),
    tcpCloseWaitTimeoutMs: notNegative('tcpCloseWaitTimeout', input.tcpCloseWaitTimeoutMs ?? 3_600_000),
    tcpBeLiberal: input.tcpBeLiberal ?? false,
    udpTimeoutMs: notNegative('udpTimeout', input.udpTimeoutMs ?? 0),
    udpStreamTimeoutMs: notNegative('udpStreamTimeout', input.udpStreamTimeoutMs ?? 0),
  }
}

function notNegative(field: string, value: number): number {
  if (value >= 0) return value
  throw new ConfigError(`conntrack.${field}`, 'must be greater than or equal to 0')
}
