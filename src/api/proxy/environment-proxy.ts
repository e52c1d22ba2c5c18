// The proxy of the environment, by the rules of golang.org/x/net/http/httpproxy, as in client-go.
import { BlockList, isIP } from 'node:net'
import { parseProxy } from './proxy-url.js'

export type Environment = Readonly<Record<string, string | undefined>>

/** The proxy for `server`; undefined: none. Throws ConfigError when a variable is not the URL of a proxy. */
export function environmentProxy(server: URL, environment: Environment): URL | undefined {
  const [name, text] = variable(environment, server.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY')
  if (text === '' || !mayProxy(server, variable(environment, 'NO_PROXY')[1])) return undefined
  return parseProxy(name, text.includes('://') ? text : `http://${text}`)
}

/** The variable in upper case, or in lower case if that one is blank. */
function variable(environment: Environment, name: string): readonly [name: string, value: string] {
  const lower = name.toLowerCase()
  const upperValue = environment[name] ?? ''
  return upperValue === '' ? [lower, environment[lower] ?? ''] : [name, upperValue]
}

function mayProxy(server: URL, noProxy: string): boolean {
  const host = withoutBrackets(server.hostname.toLowerCase())
  if (host === 'localhost' || isLoopback(host)) return false
  const port = server.port === '' ? (server.protocol === 'https:' ? '443' : '80') : server.port
  const entries = noProxy.split(',').map((entry) => entry.trim().toLowerCase())
  return !entries.some((entry) => entry !== '' && exempts(entry, host, port))
}

/** Whether an entry of NO_PROXY matches: `*`, a network, or HOST, IP, .DOMAIN or *.DOMAIN, each with or without a port. */
function exempts(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true
  const [network = '', length] = entry.split('/')
  if (length !== undefined) return isInNetwork(host, network, length)
  // An IPv6 address without brackets has no port.
  const found = isIP(entry) === 6 ? null : /^(?<name>.*):(?<port>[^:\]]*)$/u.exec(entry)
  const name = found === null ? entry : withoutBrackets(found.groups?.['name'] ?? '')
  const wantedPort = found?.groups?.['port'] ?? ''
  if (name === '' || (wantedPort !== '' && wantedPort !== port)) return false
  if (isIP(name) !== 0) return isInNetwork(host, name, isIP(name) === 6 ? '128' : '32')
  const domain = name.replace(/^\*\./u, '.')
  return domain.startsWith('.') ? host.endsWith(domain) : host === domain || host.endsWith(`.${domain}`)
}

function isLoopback(host: string): boolean {
  return isInNetwork(host, '127.0.0.0', '8') || isInNetwork(host, '::1', '128')
}

/** False when `network` is not a network, or `host` is a name. */
function isInNetwork(host: string, network: string, length: string): boolean {
  const [hostFamily, family] = [isIP(host), isIP(network)]
  if (hostFamily === 0 || family !== hostFamily || !/^\d{1,3}$/u.test(length)) return false
  const bits = Number(length)
  if (bits > (family === 6 ? 128 : 32)) return false
  const type = family === 6 ? 'ipv6' : 'ipv4'
  const list = new BlockList()
  list.addSubnet(network, bits, type)
  return list.check(host, type)
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/gu, '')
}
