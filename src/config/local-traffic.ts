// How traffic of this node's pods is told from other traffic, and which addresses take node ports: settings of the modes
// that translate addresses by rules. Sentences are kube-proxy's where it has one.
import { type Cidr, type IpAddress, parseCidr, parseIpAddress } from '../address.js'
import { ConfigError } from '../errors.js'
import type { ConfiguredMode } from './config.js'

const detectLocalModes = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'] as const
export type DetectLocalMode = (typeof detectLocalModes)[number]

export interface DetectLocal {
  /** Interface that all pods are behind; empty but in mode BridgeInterface. */
  readonly bridgeInterface: string
  /** How names of pods' interfaces begin; empty but in mode InterfaceNamePrefix. */
  readonly interfaceNamePrefix: string
}

export interface DetectLocalInput {
  readonly bridgeInterface?: string | undefined
  readonly interfaceNamePrefix?: string | undefined
}

// linux/if.h IFNAMSIZ is 16 with its closing NUL; rules end a prefix with "+". Letters as dev_valid_name() has them.
const interfaceLetters = /^[^\s/:]+$/u
const longestInterface = 15
const longestPrefix = longestInterface - 1

/** Blank: ClusterCIDR, as in kube-proxy. */
export function resolveDetectLocalMode(text: string): DetectLocalMode {
  if (text === '') return 'ClusterCIDR'
  const mode = detectLocalModes.find((candidate) => candidate === text)
  if (mode !== undefined) return mode
  throw new ConfigError('detectLocalMode', `must be ${detectLocalModes.join(', ')} or blank, not "${text}"`)
}

export function resolveDetectLocal(mode: DetectLocalMode, input: DetectLocalInput): DetectLocal {
  const { bridgeInterface = '', interfaceNamePrefix = '' } = input
  if (mode === 'BridgeInterface' && !isInterfaceText(bridgeInterface, longestInterface)) {
    const problem = `must be the name of the pods' bridge, 1 to ${longestInterface} bytes, in mode ${mode}, not "${bridgeInterface}"`
    throw new ConfigError('detectLocal.bridgeInterface', problem)
  }
  if (mode === 'InterfaceNamePrefix' && !isInterfaceText(interfaceNamePrefix, longestPrefix)) {
    const problem = `must be how names of the pods' interfaces begin, 1 to ${longestPrefix} bytes, in mode ${mode}, not "${interfaceNamePrefix}"`
    throw new ConfigError('detectLocal.interfaceNamePrefix', problem)
  }
  return { bridgeInterface, interfaceNamePrefix }
}

/** The kernel counts bytes. */
function isInterfaceText(text: string, longest: number): boolean {
  return interfaceLetters.test(text) && Buffer.byteLength(text) <= longest
}

/** One network, or one of each family; other modes than ClusterCIDR do not look at it, and neither does their validation. */
export function resolveClusterCIDR(mode: DetectLocalMode, texts: readonly string[]): readonly Cidr[] {
  if (mode !== 'ClusterCIDR') return texts.map(parseCidr).filter((network) => network !== undefined)
  const networks = texts.map((text) => {
    const network = parseCidr(text)
    if (network !== undefined) return network
    const problem = `must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48), not "${text}"`
    throw new ConfigError('clusterCIDR', problem)
  })
  const example = '(e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)'
  if (networks.length > 2) {
    throw new ConfigError('clusterCIDR', `only one CIDR allowed or a valid DualStack CIDR ${example}`)
  }
  if (networks.length === 2 && networks[0]?.family === networks[1]?.family) {
    throw new ConfigError('clusterCIDR', `must be a valid DualStack CIDR ${example}: one of each family`)
  }
  return networks
}

/** `primary`: this node's own IPs. An empty list: every local address. */
export type NodePortAddresses = 'primary' | readonly Cidr[]

/** Unwritten, it means `primary` in nftables mode and every local address in the others, as in kube-proxy. */
export function resolveNodePortAddresses(texts: readonly string[], mode: ConfiguredMode): NodePortAddresses {
  if (texts.length === 0 && mode === 'nftables') return 'primary'
  if (texts.includes('primary')) {
    if (texts.length === 1) return 'primary'
    throw new ConfigError('nodePortAddresses', "can't use both 'primary' and CIDRs")
  }
  return texts.map((text) => {
    const network = parseCidr(text)
    if (network !== undefined) return network
    throw new ConfigError('nodePortAddresses', `must be a valid CIDR, or primary alone, not "${text}"`)
  })
}

/** An address that is no place, 0.0.0.0 or ::, is as good as none. */
export function resolveBindAddress(text: string): IpAddress | undefined {
  const address = parseIpAddress(text)
  if (address === undefined) {
    const problem = `must be a valid IP address (e.g. 10.9.8.7 or 2001:db8::ffff), not "${text}"`
    throw new ConfigError('bindAddress', problem)
  }
  return address === '0.0.0.0' || address === '::' ? undefined : address
}
