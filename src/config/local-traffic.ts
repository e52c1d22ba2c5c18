// Settings that recognize traffic of this node's pods, and that choose the addresses of node ports. The modes that translate
// addresses by rules use them. Sentences are kube-proxy's if it has one.
import { formatCidr, parseCidr, parseIpAddress, type Cidr, type IpAddress } from '../address.js'
import { ConfigError } from '../errors.js'

const detectLocalModes = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'] as const
type DetectLocalMode = (typeof detectLocalModes)[number]

/** Blank: ClusterCIDR, as in kube-proxy. */
export function detectLocalMode(text: string, field: string): DetectLocalMode {
  if (text === '') return 'ClusterCIDR'
  const mode = detectLocalModes.find((candidate) => candidate === text)
  if (mode !== undefined) return mode
  throw new ConfigError(field, `must be ${detectLocalModes.join(', ')} or blank, not "${text}"`)
}

// linux/if.h IFNAMSIZ is 16 with its closing NUL; rules end a prefix with "+". Letters as dev_valid_name() has them.
const interfaceLetters = /^[^\s/:]+$/u
const longestInterface = 15
const longestPrefix = longestInterface - 1

/** The interface of all pods. Modes other than BridgeInterface do not use or validate it. */
export function bridgeInterface(text: string, field: string, mode: DetectLocalMode): string {
  if (mode !== 'BridgeInterface' || isInterfaceText(text, longestInterface)) return text
  const problem = `must be the name of the pods' bridge, 1 to ${longestInterface} bytes, in mode ${mode}, not "${text}"`
  throw new ConfigError(field, problem)
}

/** The prefix of the names of pods' interfaces. Modes other than InterfaceNamePrefix do not use or validate it. */
export function interfaceNamePrefix(text: string, field: string, mode: DetectLocalMode): string {
  if (mode !== 'InterfaceNamePrefix' || isInterfaceText(text, longestPrefix)) return text
  const problem = `must be how names of the pods' interfaces begin, 1 to ${longestPrefix} bytes, in mode ${mode}, not "${text}"`
  throw new ConfigError(field, problem)
}

/** Whether the text can be an interface name of at most `longest` bytes. */
function isInterfaceText(text: string, longest: number): boolean {
  return interfaceLetters.test(text) && Buffer.byteLength(text) <= longest
}

/** One network, or one of each family. Modes other than ClusterCIDR do not use or validate it. */
export function clusterCIDR(texts: readonly string[], field: string, mode: DetectLocalMode): readonly Cidr[] {
  if (mode !== 'ClusterCIDR') return texts.map(parseCidr).filter((network) => network !== undefined)
  const expected = 'must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)'
  const networks = networksOf(texts, field, expected)
  const example = '(e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)'
  if (networks.length > 2) {
    throw new ConfigError(field, `only one CIDR allowed or a valid DualStack CIDR ${example}`)
  }
  if (networks.length === 2 && networks[0]?.family === networks[1]?.family) {
    throw new ConfigError(field, `must be a valid DualStack CIDR ${example}: one of each family`)
  }
  return networks
}

/** Throws ConfigError with `expected` for a text that is no network. */
export function networksOf(texts: readonly string[], field: string, expected: string): readonly Cidr[] {
  return texts.map((text) => networkOf(text, field, expected))
}

function networkOf(text: string, field: string, expected: string): Cidr {
  const network = parseCidr(text)
  if (network !== undefined) return network
  throw new ConfigError(field, `${expected}, not "${text}"`)
}

/**
 * The keywords of kube-proxy 1.37 for networks. `primary`: this node's own IPs. `localhost`: 127.0.0.0/8 and ::1/128. `all`: 0.0.0.0/0
 * and ::/0.
 */
export type NodePortKeyword = (typeof nodePortKeywords)[number]
const nodePortKeywords = ['primary', 'localhost', 'all'] as const

/** Keywords and networks in the order in which they are written. An empty list: every local address. */
export type NodePortAddresses = readonly (NodePortKeyword | Cidr)[]

/**
 * An empty list means `primary` in nftables mode and every local address in the others. As in kube-proxy, a keyword may be there once,
 * and a network any number of times. Throws ConfigError with `field`.
 */
export function nodePortAddresses(texts: readonly string[], field: string, mode: string): NodePortAddresses {
  if (texts.length === 0 && mode === 'nftables') return ['primary']
  const expected = `must be a valid CIDR or one of the keywords ${wordsOf(nodePortKeywords)}`
  const seen = new Set<NodePortKeyword>()
  return texts.map((text) => {
    const keyword = nodePortKeywords.find((candidate) => candidate === text)
    if (keyword === undefined) return networkOf(text, field, expected)
    if (seen.has(keyword)) throw new ConfigError(field, `has the keyword "${keyword}" twice`)
    seen.add(keyword)
    return keyword
  })
}

function wordsOf(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}

/** The inverse of `nodePortAddresses`. */
export function writtenNodePortAddresses(addresses: NodePortAddresses): readonly string[] {
  return addresses.map((entry) => (typeof entry === 'string' ? entry : formatCidr(entry)))
}

/** 0.0.0.0 and :: mean no address: undefined. */
export function nodeAddress(text: string, field: string): IpAddress | undefined {
  const address = parseIpAddress(text)
  if (address === undefined) {
    const problem = `must be a valid IP address (e.g. 10.9.8.7 or 2001:db8::ffff), not "${text}"`
    throw new ConfigError(field, problem)
  }
  return address === '0.0.0.0' || address === '::' ? undefined : address
}
