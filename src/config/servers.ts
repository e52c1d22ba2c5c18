import { familyOf, parseIpAddress, type IpAddress } from '../address.js'
import { ConfigError } from '../errors.js'

/** Where a server listens. */
export interface ListenAddress {
  /** Canonical: `0.0.0.0`, `::1`, without brackets. */
  readonly host: IpAddress
  /** 1 to 65535. */
  readonly port: number
}

/** The servers of health and metrics. */
export interface ServersConfig {
  /** undefined: no such server. */
  readonly healthzBindAddress: ListenAddress | undefined
  /** undefined: no such server. */
  readonly metricsBindAddress: ListenAddress | undefined
  /** A server that cannot listen ends the process. */
  readonly bindAddressHardFail: boolean
  /** Profiles, and the verbosity of the log to be set, beside the metrics. */
  readonly enableProfiling: boolean
}

/** What was written of them. Addresses are IP or IP:port; blank and absent mean the default, as in kube-proxy. */
export interface ServersInput {
  readonly healthzBindAddress?: string | undefined
  readonly metricsBindAddress?: string | undefined
  /** Of an address without one; 0: no such server. */
  readonly healthzPort?: number | undefined
  readonly metricsPort?: number | undefined
  readonly bindAddressHardFail?: boolean | undefined
  readonly enableProfiling?: boolean | undefined
  /** False: no such server. */
  readonly healthzServer?: boolean | undefined
  readonly metricsServer?: boolean | undefined
}

const highestPort = 65_535

interface AddressInput {
  readonly field: string
  readonly text: string
  readonly host: string
  readonly port: number
}

/** `bindAddress` is the node's, whose family the defaults have. Throws ConfigError. */
export function resolveServers(input: ServersInput, bindAddress: string): ServersConfig {
  const address = parseIpAddress(bindAddress)
  const isIpv6 = address !== undefined && familyOf(address) === 'ipv6'
  const healthzPort = resolvePort('healthzPort', input.healthzPort ?? 10256)
  const metricsPort = resolvePort('metricsPort', input.metricsPort ?? 10249)
  return {
    healthzBindAddress: resolveListenAddress(input.healthzServer, {
      field: 'healthzBindAddress',
      text: input.healthzBindAddress ?? '',
      host: isIpv6 ? '::' : '0.0.0.0',
      port: healthzPort,
    }),
    metricsBindAddress: resolveListenAddress(input.metricsServer, {
      field: 'metricsBindAddress',
      text: input.metricsBindAddress ?? '',
      host: isIpv6 ? '::1' : '127.0.0.1',
      port: metricsPort,
    }),
    bindAddressHardFail: input.bindAddressHardFail ?? false,
    enableProfiling: input.enableProfiling ?? false,
  }
}

/** As kube-proxy's files have it: `127.0.0.1:10249`, `[::1]:10249`. */
export function formatListenAddress({ host, port }: ListenAddress): string {
  return familyOf(host) === 'ipv6' ? `[${host}]:${port}` : `${host}:${port}`
}

function resolvePort(field: string, port: number): number {
  if (port >= 0 && port <= highestPort) return port
  throw new ConfigError(field, `must be a valid port, not ${port}`)
}

function resolveListenAddress(isWanted = true, input: AddressInput): ListenAddress | undefined {
  return isWanted && input.port !== 0 ? parseListenAddress(input) : undefined
}

// Sentences are kube-proxy's (validateHostPort of its validation).
function parseListenAddress({ field, text, host, port }: AddressInput): ListenAddress {
  const refusal = (problem: string): ConfigError => new ConfigError(field, `${problem}, not "${text}"`)
  const alone = parseIpAddress(text === '' ? host : text)
  const parts = /^(?:\[(?<bracketed>[^\]]*)\]|(?<bare>[^:]*)):(?<port>[^:]*)$/su.exec(text)?.groups
  if (alone === undefined && parts === undefined) throw refusal('must be IP:port')
  const address = alone ?? parseIpAddress(parts?.['bracketed'] ?? parts?.['bare'] ?? '')
  if (address === undefined) throw refusal('must be a valid IP')
  const number = alone === undefined ? Number(/^\d{1,5}$/u.exec(parts?.['port'] ?? '')?.[0]) : port
  if (!(number >= 1 && number <= highestPort)) throw refusal('must be a valid port')
  return { host: address, port: number }
}
