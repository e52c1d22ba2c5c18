// Names of chains. They are kube-proxy's, hashes included, so that people and scripts find the names that they know.
import { hash } from 'node:crypto'
import { formatEndpoint } from '../../address.js'
import type { Protocol } from '../../kernel/index.js'
import type { Backend } from '../../routing/index.js'
import { BugError } from '../../errors.js'
import type { DispatchChain, IptablesTable } from './desired.js'

/** Chains of the mode itself. */
export const chainNames = {
  services: 'KUBE-SERVICES',
  externalServices: 'KUBE-EXTERNAL-SERVICES',
  nodePorts: 'KUBE-NODEPORTS',
  postrouting: 'KUBE-POSTROUTING',
  markMasquerade: 'KUBE-MARK-MASQ',
  forward: 'KUBE-FORWARD',
  proxyFirewall: 'KUBE-PROXY-FIREWALL',
  canary: 'KUBE-PROXY-CANARY',
  /** kubelet has this chain too: see compileSkeleton(). */
  firewall: 'KUBE-FIREWALL',
} as const

/** Every base chain that finds its rules by frontend. */
export const dispatchChains = {
  /** Addresses of Services that have endpoints. */
  services: { table: 'nat', chain: chainNames.services },
  nodePorts: { table: 'nat', chain: chainNames.nodePorts },
  /** Cluster IPs without endpoints. */
  refusedServices: { table: 'filter', chain: chainNames.services },
  /** Addresses and node ports for outside traffic without endpoints. */
  refusedExternal: { table: 'filter', chain: chainNames.externalServices },
  /** Load-balancer addresses with source ranges. */
  firewall: { table: 'filter', chain: chainNames.proxyFirewall },
  healthChecks: { table: 'filter', chain: chainNames.nodePorts },
} as const satisfies Readonly<Record<string, DispatchChain>>

/** Longest name that the iptables tools accept. */
const maxNameLength = 28

/**
 * Prefixes of the names of bucket chains, by table and dispatch chain. kube-proxy removes unknown chains with these prefixes from
 * nat. So if a node goes back to kube-proxy, no bucket of ours keeps a jump to a chain that kube-proxy wants to remove.
 */
const bucketPrefixes: Readonly<Record<IptablesTable, Readonly<Record<string, string>>>> = {
  nat: { [chainNames.services]: 'KUBE-SVC-', [chainNames.nodePorts]: 'KUBE-EXT-' },
  filter: {
    [chainNames.services]: 'KUBE-SVC-',
    [chainNames.externalServices]: 'KUBE-EXT-',
    [chainNames.proxyFirewall]: 'KUBE-FW-',
    [chainNames.nodePorts]: 'KUBE-SVL-',
  },
}

/**
 * Chains that the mode, or kube-proxy before it, may have made; `*` matches any rest. KUBE-FIREWALL is not in the list, as
 * kubelet has it too.
 */
export const ownedChains: Readonly<Record<IptablesTable, readonly string[]>> = {
  nat: [
    chainNames.services,
    chainNames.nodePorts,
    chainNames.postrouting,
    chainNames.markMasquerade,
    chainNames.canary,
    'KUBE-SVC-*',
    'KUBE-SVL-*',
    'KUBE-EXT-*',
    'KUBE-FW-*',
    'KUBE-SEP-*',
  ],
  filter: [
    chainNames.services,
    chainNames.externalServices,
    chainNames.nodePorts,
    chainNames.forward,
    chainNames.proxyFirewall,
    chainNames.canary,
    'KUBE-SVC-*',
    'KUBE-SVL-*',
    'KUBE-EXT-*',
    'KUBE-FW-*',
  ],
}

const base32Digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
/** Base32 digits in pairs, by ten bits. They make the hashes faster: a start makes one or more for each service port. */
const digitPairs = Array.from(
  { length: 1024 },
  (_, bits) => base32Digits.charAt(bits >>> 5) + base32Digits.charAt(bits & 31),
)

/** The first 16 digits (80 bits) of the RFC 4648 base32 of SHA-256. */
function chainHash(text: string): string {
  const digest = hash('sha256', text, 'binary')
  return eightDigits(digest, 0) + eightDigits(digest, 5)
}

/** Eight digits for the five bytes from `at`. */
function eightDigits(digest: string, at: number): string {
  const high = (digest.charCodeAt(at) << 16) | (digest.charCodeAt(at + 1) << 8) | digest.charCodeAt(at + 2)
  const low = (digest.charCodeAt(at + 3) << 8) | digest.charCodeAt(at + 4)
  return (
    pairAt(high >>> 14) +
    pairAt((high >>> 4) & 0x3ff) +
    pairAt(((high & 15) << 6) | (low >>> 10)) +
    pairAt(low & 0x3ff)
  )
}

function pairAt(bits: number): string {
  return digitPairs[bits] ?? ''
}

/** Chains that one service port may have; most service ports have only the first one. */
export class ServiceChains {
  readonly #digits: string
  /** Leads to the endpoints of the cluster. */
  readonly cluster: string

  constructor(name: string, protocol: Protocol) {
    this.#digits = chainHash(name + protocol)
    this.cluster = `KUBE-SVC-${this.#digits}`
  }

  /** Leads to the endpoints of this node. */
  get local(): string {
    return `KUBE-SVL-${this.#digits}`
  }

  /** For traffic to the external frontends of the service port. */
  get external(): string {
    return `KUBE-EXT-${this.#digits}`
  }

  /** Leads packets of sources that may use the load balancer to `external`. */
  get firewall(): string {
    return `KUBE-FW-${this.#digits}`
  }
}

export function endpointChain(name: string, protocol: Protocol, backend: Backend): string {
  return `KUBE-SEP-${chainHash(name + protocol + formatEndpoint(backend.address, backend.port))}`
}

/**
 * The bucket of a dispatch chain for a part of its frontends. Its name is the part itself (`KUBE-SVC-10.96.4.0/22`,
 * `KUBE-EXT-tcp/30720-31743`), or `_` and the part's hash if the name would be too long. It never equals the name of a service
 * chain: those have only capitals and digits after the prefix.
 */
export function bucketChain(dispatch: DispatchChain, part: string): string {
  const prefix = bucketPrefixes[dispatch.table][dispatch.chain] ?? `${dispatch.chain}-`
  const name = prefix + part
  return name.length <= maxNameLength ? name : `${prefix}_${chainHash(part)}`
}

// The names are short, as names of bucket chains begin with them. They match a pattern of `ownedChains`, so a later start removes
// the chains if this run ends early.
const names = new Map<DispatchChain, string>([
  [dispatchChains.services, 'KUBE-FW-_S'],
  [dispatchChains.nodePorts, 'KUBE-FW-_N'],
  [dispatchChains.refusedServices, 'KUBE-FW-_S'],
  [dispatchChains.refusedExternal, 'KUBE-FW-_E'],
  [dispatchChains.firewall, 'KUBE-FW-_F'],
  [dispatchChains.healthChecks, 'KUBE-FW-_N'],
])

/** Name of our chain that stands beside a former owner's dispatch chain until all objects are known. */
export function standInFor(dispatch: DispatchChain): string {
  const name = names.get(dispatch)
  if (name === undefined) throw new BugError(`${dispatch.table} ${dispatch.chain} is no dispatch chain`)
  return name
}
