import { parseCidr, type Cidr } from '../address.js'
import { ConfigError } from '../errors.js'
import { resolvePeriods, type SyncPeriods, type SyncPeriodsInput } from './periods.js'
import { resolveScheduling, type Scheduling, type SchedulingText } from './schedulers.js'

/** How long IPVS remembers an idle connection, in whole seconds; 0 leaves the kernel's time-out as it is. */
export interface IpvsTimeoutConfig {
  readonly tcpTimeoutSeconds: number
  readonly tcpFinTimeoutSeconds: number
  readonly udpTimeoutSeconds: number
}

/** Settings of ipvs mode. Its scheduling is of every Service that does not choose by annotation. */
export interface IpvsConfig extends SyncPeriods, Scheduling, IpvsTimeoutConfig {
  /** Virtual servers in these networks are never removed. */
  readonly excludeCIDRs: readonly Cidr[]
  /** The node answers for an address only on the interface that has it. */
  readonly strictARP: boolean
  /** How long a backend that gets no new connections may keep those that it has; 0: not at all; Infinity: until they end. */
  readonly gracefulPeriodMs: number
  /** Whether the kernel keeps rates of connections and bytes; undefined: as it is. */
  readonly runEstimation: boolean | undefined
  /** Bits of the packet mark that firewall marks of virtual servers are made of, as an unsigned 32-bit number, not 0. */
  readonly markMask: number
}

export interface IpvsInput extends SyncPeriodsInput, SchedulingText {
  readonly excludeCIDRs?: readonly string[] | undefined
  readonly strictARP?: boolean | undefined
  readonly tcpTimeoutMs?: number | undefined
  readonly tcpFinTimeoutMs?: number | undefined
  readonly udpTimeoutMs?: number | undefined
  readonly gracefulPeriodMs?: number | undefined
  readonly runEstimation?: boolean | undefined
  readonly markMask?: number | undefined
}

/** `masqueradeBit`: number of the bit that asks for masquerading, which no firewall mark may have. */
export function resolveIpvs(input: IpvsInput, masqueradeBit: number): IpvsConfig {
  return {
    ...resolvePeriods('ipvs', input),
    ...resolveScheduling(input),
    excludeCIDRs: (input.excludeCIDRs ?? []).map(requireCidr),
    strictARP: input.strictARP ?? false,
    tcpTimeoutSeconds: timeoutSeconds('tcpTimeout', input.tcpTimeoutMs),
    tcpFinTimeoutSeconds: timeoutSeconds('tcpFinTimeout', input.tcpFinTimeoutMs),
    udpTimeoutSeconds: timeoutSeconds('udpTimeout', input.udpTimeoutMs),
    gracefulPeriodMs: requireGracefulPeriod(input.gracefulPeriodMs ?? Infinity),
    runEstimation: input.runEstimation,
    markMask: resolveMarkMask(input.markMask, masqueradeBit),
  }
}

/** What the common users of packet marks leave free (docs/ipvs.md has the table). */
const defaultMarkMask = 0x107f

function resolveMarkMask(mask: number | undefined, masqueradeBit: number): number {
  const masqueradeMark = 2 ** masqueradeBit
  if (mask === undefined) return (defaultMarkMask & ~masqueradeMark) >>> 0
  if (!(Number.isInteger(mask) && mask >= 1 && mask <= 0xffffffff))
    throw new ConfigError('ipvs.markMask', `must have 1 to 32 bits, 0x1 to 0xffffffff, not ${mask}`)
  if ((mask & masqueradeMark) === 0) return mask
  const text = `must not contain 0x${masqueradeMark.toString(16)}, which asks for masquerading (iptables.masqueradeBit ${masqueradeBit})`
  throw new ConfigError('ipvs.markMask', text)
}

function requireGracefulPeriod(ms: number): number {
  if (ms >= 0) return ms
  throw new ConfigError('ipvs.gracefulPeriod', 'must be greater than or equal to 0')
}

function requireCidr(text: string): Cidr {
  const cidr = parseCidr(text)
  if (cidr !== undefined) return cidr
  throw new ConfigError('ipvs.excludeCIDRs', `must be networks such as 10.0.0.0/8 or fd00::/8, not "${text}"`)
}

// The kernel counts in ticks, in an int (ip_vs_set_timeout): 2^31 of 1/1000 s, where a second has the most of them.
const longestTimeoutHours = 596

function timeoutSeconds(field: string, ms = 0): number {
  if (!(ms >= 0)) throw new ConfigError(`ipvs.${field}`, 'must be greater than or equal to 0')
  if (ms > longestTimeoutHours * 3_600_000)
    throw new ConfigError(`ipvs.${field}`, `must be at most ${longestTimeoutHours}h`)
  return Math.floor(ms / 1000)
}
