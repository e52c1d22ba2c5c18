// Validation of values that several settings share. Each check is a `resolve` of setting.ts, which throws ConfigError with `field`.
import { ConfigError } from '../errors.js'
import { familyOf, parseIpAddress, type IpAddress } from '../address.js'

type Check<T> = (value: T, field: string) => T

export const notNegative: Check<number> = (value, field) => {
  if (value >= 0) return value
  throw new ConfigError(field, 'must be greater than or equal to 0')
}

/** Whole numbers from `first` to `last`. */
export function within(first: number, last: number): Check<number> {
  return (value, field) => {
    if (Number.isInteger(value) && value >= first && value <= last) return value
    throw new ConfigError(field, `must be within the range [${first}, ${last}], not ${value}`)
  }
}

export const portNumber: Check<number> = (value, field) => {
  if (value >= 0 && value <= 65_535) return value
  throw new ConfigError(field, `must be a valid port, not ${value}`)
}

/** One of these texts. */
export function oneOf<T extends string>(...choices: readonly T[]): (text: string, field: string) => T {
  return (text, field) => {
    const choice = choices.find((candidate) => candidate === text)
    if (choice !== undefined) return choice
    const others = choices.slice(0, -1).join(', ')
    throw new ConfigError(field, `must be ${others} or ${choices.at(-1)}, not "${text}"`)
  }
}

const longestHours = 596

/** A period in milliseconds. A timer of Node with a longer delay than 2^31 - 1 ms fires at once. */
export const period: Check<number> = (periodMs, field) => {
  if (!(periodMs > 0)) throw new ConfigError(field, 'must be greater than 0')
  if (periodMs <= longestHours * 3_600_000) return periodMs
  throw new ConfigError(field, `must be at most ${longestHours}h`)
}

/** A shortest period in milliseconds, for a mode that compares the kernel every `syncPeriodMs`. */
export function shortestPeriod(minPeriodMs: number, field: string, syncPeriodMs: number): number {
  if (!(minPeriodMs >= 0)) throw new ConfigError(field, 'must not be negative')
  if (minPeriodMs <= syncPeriodMs) return minPeriodMs
  throw new ConfigError(field, `must not be longer than the sync period (${syncPeriodMs} ms)`)
}

/** A time-out of IPVS. The kernel counts in ticks, in an int (ip_vs_set_timeout): at most 2^31 of 1/1000 s. */
export const kernelTimeout: Check<number> = (seconds, field) => {
  if (notNegative(seconds, field) <= longestHours * 3600) return seconds
  throw new ConfigError(field, `must be at most ${longestHours}h`)
}

/** Where a server listens. */
interface ListenAddress {
  /** Canonical: `0.0.0.0`, `::1`, without brackets. */
  readonly host: IpAddress
  /** 1 to 65535. */
  readonly port: number
}

interface ListenDefaults {
  /** bindAddress as written. A blank address gets its family. */
  readonly bindAddress: string
  readonly hosts: { readonly ipv4: string; readonly ipv6: string }
  /** 0: no server. */
  readonly port: number
}

/** Reads IP or IP:port; blank means the default, as in kube-proxy. undefined: no server. Throws ConfigError. */
export function listenAddress(
  field: string,
  text: string,
  { bindAddress, hosts, port }: ListenDefaults,
): ListenAddress | undefined {
  if (port === 0) return undefined
  const address = parseIpAddress(bindAddress)
  const family = address === undefined ? 'ipv4' : familyOf(address)
  const host = parseIpAddress(text === '' ? hosts[family] : text)
  return host === undefined ? parseHostPort(field, text) : { host, port }
}

// The sentences are kube-proxy's (validateHostPort of its validation).
function parseHostPort(field: string, text: string): ListenAddress {
  const refusal = (problem: string): ConfigError => new ConfigError(field, `${problem}, not "${text}"`)
  const parts = /^(?:\[(?<bracketed>[^\]]*)\]|(?<bare>[^:]*)):(?<port>[^:]*)$/su.exec(text)?.groups
  if (parts === undefined) throw refusal('must be IP:port')
  const host = parseIpAddress(parts['bracketed'] ?? parts['bare'] ?? '')
  if (host === undefined) throw refusal('must be a valid IP')
  const port = Number(/^\d{1,5}$/u.exec(parts['port'] ?? '')?.[0])
  if (!(port >= 1 && port <= 65_535)) throw refusal('must be a valid port')
  return { host, port }
}

/** The text of a file: `127.0.0.1:10249`, `[::1]:10249`; blank: no server. */
export function formatListenAddress(address: ListenAddress | undefined): string {
  if (address === undefined) return ''
  const { host, port } = address
  return familyOf(host) === 'ipv6' ? `[${host}]:${port}` : `${host}:${port}`
}
