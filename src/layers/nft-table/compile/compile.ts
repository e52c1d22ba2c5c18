// Compiles one route into what the kernel does with connections to each of its frontends.
import { type Cidr, cidrContains, formatCidr, hasAddress, type IpAddress } from '../../../address.js'
import { hostPrefixLength } from '../../../kernel/index.js'
import { type Backend, frontendProtocols, type Route, verdictOf } from '../../../routing/index.js'
import type { DesiredFrontend, DesiredRoute, Hairpin, NftFrontend } from './desired.js'
import { ownChainsOf } from './own-chains.js'
import { maxEndpoints } from './schema.js'
import type { NftModeSettings } from './settings.js'

/**
 * All desired objects of the route. Each frontend appears once: the first role of an address decides, but source ranges apply to
 * each load-balancer IP.
 */
export function compileRoute(route: Route, settings: NftModeSettings): DesiredRoute {
  const protocol = frontendProtocols[route.protocol]
  const { clusterIP, port, nodePort } = route
  const atAddress = (address: IpAddress): NftFrontend => ({ kind: 'address', address, protocol, port })
  const ranges = allowedSourcesOf(route, settings)
  const sourcesOf = (address: IpAddress): readonly Cidr[] | undefined =>
    isGuarded(route, address, settings) ? ranges : undefined
  const frontends: DesiredFrontend[] = []
  if (clusterIP !== undefined)
    frontends.push(internalFrontend(route, atAddress(clusterIP), sourcesOf(clusterIP)))
  for (const address of otherAddressesOf(route))
    frontends.push(externalFrontend(route, atAddress(address), sourcesOf(address)))
  if (nodePort !== 0)
    frontends.push(externalFrontend(route, { kind: 'node-port', protocol, port: nodePort }, undefined))
  const hairpins = settings.semantics === 'iptables' ? [] : hairpinsOf(route, settings)
  return { ...withOwnChains(route, frontends), hairpins }
}

/** The frontends of a service port with session affinity lead to its own chains. */
function withOwnChains(
  route: Route,
  frontends: readonly DesiredFrontend[],
): Pick<DesiredRoute, 'frontends' | 'own'> {
  if (route.affinitySeconds === 0) return { frontends, own: undefined }
  return ownChainsOf(route, frontends)
}

/** External IPs and load-balancer IPs, each once; nearly always none. */
function otherAddressesOf({ clusterIP, externalIPs, loadBalancerIPs }: Route): Iterable<IpAddress> {
  if (externalIPs.length + loadBalancerIPs.length === 0) return externalIPs
  const others = new Set([...externalIPs, ...loadBalancerIPs])
  if (clusterIP !== undefined) others.delete(clusterIP)
  return others
}

/**
 * Whether source ranges apply at the address (F-056). In iptables mode, the rule of a cluster IP or of an external IP with the same
 * address comes first, and a Service without endpoints refuses clients of any source.
 */
function isGuarded(
  { clusterIP, externalIPs, loadBalancerIPs, isExternalLocal, localBackends, clusterBackends }: Route,
  address: IpAddress,
  { semantics }: NftModeSettings,
): boolean {
  if (!hasAddress(loadBalancerIPs, address)) return false
  if (semantics === 'nftables') return true
  const hasEndpoints = clusterBackends.length > 0 || (isExternalLocal && localBackends.length > 0)
  return hasEndpoints && address !== clusterIP && !hasAddress(externalIPs, address)
}

function internalFrontend(
  route: Route,
  frontend: NftFrontend,
  allowedSources: readonly Cidr[] | undefined,
): DesiredFrontend {
  return {
    frontend,
    isClusterIP: true,
    refusal: refusalOf(route, 'internal'),
    backends: bounded(route.isInternalLocal ? route.localBackends : route.clusterBackends),
    shortCircuit: none,
    isMasqueraded: false,
    chain: '',
    shortCircuitChain: '',
    allowedSources,
  }
}

const none: readonly Backend[] = []

/** F-049, F-051: policy Cluster masquerades all connections; policy Local leaves those of pods and the node to the whole cluster. */
function externalFrontend(
  route: Route,
  frontend: NftFrontend,
  allowedSources: readonly Cidr[] | undefined,
): DesiredFrontend {
  const { isExternalLocal, localBackends, clusterBackends } = route
  return {
    frontend,
    isClusterIP: false,
    refusal: refusalOf(route, 'external'),
    backends: bounded(isExternalLocal ? localBackends : clusterBackends),
    shortCircuit: isExternalLocal ? bounded(clusterBackends) : none,
    isMasqueraded: !isExternalLocal,
    chain: '',
    shortCircuitChain: '',
    allowedSources,
  }
}

/** The list itself, which routes share, unless it is too long. */
function bounded(backends: readonly Backend[]): readonly Backend[] {
  return backends.length > maxEndpoints ? backends.slice(0, maxEndpoints) : backends
}

function refusalOf(route: Route, side: 'internal' | 'external'): DesiredFrontend['refusal'] {
  switch (verdictOf(route, side)) {
    case 'serve':
      return undefined
    case 'refuse':
      return 'reject'
    case 'drop':
      return 'drop'
  }
}

/** Each network once. undefined: every source may connect. */
function allowedSourcesOf(route: Route, settings: NftModeSettings): readonly Cidr[] | undefined {
  const { sourceRanges, loadBalancerIPs } = route
  const { nodeIP, family } = settings
  if (sourceRanges.length === 0) return undefined
  const isNodeAllowed = nodeIP !== undefined && sourceRanges.some((range) => cidrContains(range, nodeIP))
  const prefixLength = hostPrefixLength(family)
  // Packets of the node itself to the address have that address as their source.
  const own = isNodeAllowed ? loadBalancerIPs.map((address) => ({ family, address, prefixLength })) : []
  const networks = new Map([...sourceRanges, ...own].map((network) => [formatCidr(network), network]))
  return [...networks.values()]
}

/** F-050. Each endpoint once. */
function hairpinsOf(route: Route, { nodeName }: NftModeSettings): readonly Hairpin[] {
  const protocol = frontendProtocols[route.protocol]
  const isHere = (backend: Backend): boolean => backend.nodeName === nodeName
  const here = route.clusterBackends.filter(isHere).concat(route.localBackends.filter(isHere))
  const hairpins = here.map(({ address, port }) => ({ address, protocol, port }))
  if (route.localBackends.length === 0) return hairpins
  return [...new Map(hairpins.map((hairpin) => [`${hairpin.address} ${hairpin.port}`, hairpin])).values()]
}
