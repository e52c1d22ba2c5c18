import { familyOf, parseIpAddress, type IpAddress } from '../address.js'
import { ConfigError } from '../errors.js'

/** Where a server listens. */
export interface ListenAddress {
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
