// Settings that do not fit the node: those that are valid but incomplete get a warning (F-065, F-083, F-086), and with some the agent
// cannot run (F-085, F-086).
import { familyOf, formatCidr, type Cidr, type IpFamily } from '../address.js'
import type { Config, NodePortAddresses, ProxyMode } from '../config/index.js'
import { includesLoopback, networksIn, relayedLoopback } from './mode-settings.js'
import type { NodeFacts } from './node-tracker.js'

interface WarnedConfig extends Pick<
  Config,
  | 'nodePortAddresses'
  | 'nodePortHolding'
  | 'localhostNodePorts'
  | 'featureGates'
  | 'detectLocalMode'
  | 'clusterCIDR'
  | 'ipvs'
  | 'servers'
> {
  /** The mode in force. */
  readonly mode: ProxyMode
  /** The programmed families. */
  readonly families: readonly IpFamily[]
  /** The family of the node's first IP. */
  readonly primaryFamily: IpFamily
}

const unspecified: readonly string[] = ['0.0.0.0', '::']
const unheld = 'nodePortHolding has no effect in userspace mode, which listens on node ports itself'

/** One sentence per warning. A node without a known IP counts as IPv4 only (F-083). */
export function configWarnings(
  config: WarnedConfig,
  node: Pick<NodeFacts, 'addresses' | 'podCIDRs'>,
): readonly string[] {
  const known = (['ipv4', 'ipv6'] as const).filter((family) => node.addresses[family] !== undefined)
  const families: readonly IpFamily[] = known.length === 0 ? ['ipv4'] : known
  const used = usedFamilies(config, node, families)
  const unknown =
    "this node's IP is not known: no load balancer source range will admit the node itself; name it by --bind-address"
  return [
    ...(known.length === 0 ? [unknown] : []),
    ...nodePortWarnings(config, used),
    ...(config.mode === 'nftables' ? loopbackWarnings(config, used) : []),
    ...detectionWarnings(config, node, used),
    ...serverWarnings(config),
    ...(config.mode === 'ipvs' ? excludeWarnings(config, families) : []),
    ...(config.mode === 'userspace' && config.nodePortHolding ? [unheld] : []),
  ]
}

/**
 * The node's families that the cluster seems to use: the one of its first IP, and the other one if a setting or the pods' networks of the
 * Node name networks of both, as in kube-proxy (checkBadConfig). A node of an IPv4-only cluster may have an IPv6 address.
 */
function usedFamilies(
  { clusterCIDR, nodePortAddresses, ipvs, primaryFamily }: WarnedConfig,
  { podCIDRs }: Pick<NodeFacts, 'podCIDRs'>,
  families: readonly IpFamily[],
): readonly IpFamily[] {
  const named = nodePortAddresses.filter((entry) => typeof entry !== 'string')
  const isDual = [clusterCIDR, named, ipvs.excludeCIDRs, podCIDRs].some(
    (networks) => withoutNetwork(networks, ['ipv4', 'ipv6']).length === 0,
  )
  return isDual || !families.includes(primaryFamily) ? families : [primaryFamily]
}

function nodePortWarnings({ nodePortAddresses }: WarnedConfig, families: readonly IpFamily[]): string[] {
  if (nodePortAddresses.length === 0) {
    return [
      'nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. Consider using `--nodeport-addresses primary`',
    ]
  }
  // Each of these families has an IP of the node, which `primary` names.
  if (nodePortAddresses.includes('primary')) return []
  const bare = families.filter(
    (family) => networksIn(nodePortAddresses, family, { addresses: {} }).length === 0,
  )
  return bare.map(
    (family) =>
      `nodePortAddresses has no ${familyNames[family]} network; NodePort connections will be accepted on all local ${familyNames[family]} addresses`,
  )
}

/** F-064: nftables mode serves node ports on loopback addresses on request only. */
function loopbackWarnings(config: WarnedConfig, families: readonly IpFamily[]): string[] {
  const named = config.nodePortAddresses.filter((entry) =>
    families.some((family) => namesUnservedLoopback(entry, family, config)),
  )
  return named.map((entry) => {
    const text = typeof entry === 'string' ? entry : formatCidr(entry)
    return `nodePortAddresses has ${text}, but nftables mode does not serve node ports on loopback addresses unless localhostNodePorts is on`
  })
}

function namesUnservedLoopback(
  entry: NodePortAddresses[number],
  family: IpFamily,
  config: WarnedConfig,
): boolean {
  const networks = networksIn([entry], family, { addresses: {} })
  const isNamed = networks.some((network) => network.prefixLength > 0 && includesLoopback(network))
  return isNamed && relayedLoopback({ mode: 'nftables', family, config }) === undefined
}

/** Without a network, no rule recognizes the pods of this family. */
function detectionWarnings(
  { detectLocalMode, clusterCIDR }: WarnedConfig,
  { podCIDRs }: Pick<NodeFacts, 'podCIDRs'>,
  families: readonly IpFamily[],
): string[] {
  const source = {
    ClusterCIDR: clusterCIDR,
    NodeCIDR: podCIDRs,
    BridgeInterface: undefined,
    InterfaceNamePrefix: undefined,
  }
  const networks = source[detectLocalMode]
  if (networks === undefined) return []
  const place = detectLocalMode === 'ClusterCIDR' ? 'clusterCIDR' : 'spec.podCIDRs of this Node'
  return withoutNetwork(networks, families).map(
    (family) =>
      `${place} has no ${familyNames[family]} network; pod traffic cannot be distinguished from other ${familyNames[family]} traffic (detectLocalMode ${detectLocalMode})`,
  )
}

/**
 * If only one family is programmed, a server that listens on an address of the other family gets no requests. As in kube-proxy, `0.0.0.0` and
 * `::` are of no family.
 */
function serverWarnings({ servers, families }: WarnedConfig): string[] {
  const [family, second] = families
  if (family === undefined || second !== undefined) return []
  return (['healthzBindAddress', 'metricsBindAddress'] as const).flatMap((field) => {
    const host = servers[field]?.host
    if (host === undefined || unspecified.includes(host) || familyOf(host) === family) return []
    return [`cluster is ${familyNames[family]}-only but ${field} is ${familyNames[familyOf(host)]}`]
  })
}

function excludeWarnings({ ipvs }: WarnedConfig, families: readonly IpFamily[]): string[] {
  const isAllForeign = ipvs.excludeCIDRs.length > 0 && withoutNetwork(ipvs.excludeCIDRs, families).length > 0
  const [family, second] = families
  if (!isAllForeign || family === undefined || second !== undefined) return []
  return [
    `ipvs.excludeCIDRs has no ${familyNames[family]} network, but this node has only ${familyNames[family]}`,
  ]
}

function withoutNetwork(networks: readonly Cidr[], families: readonly IpFamily[]): readonly IpFamily[] {
  return families.filter((family) => !networks.some((network) => network.family === family))
}

interface FamilyFacts {
  readonly config: Pick<Config, 'detectLocalMode' | 'clusterCIDR'>
  /** The programmed families. */
  readonly families: readonly IpFamily[]
  readonly primaryFamily: IpFamily
  readonly node: Pick<NodeFacts, 'podCIDRs'>
}

const familyNames: Readonly<Record<IpFamily, string>> = { ipv4: 'IPv4', ipv6: 'IPv6' }

/** The reason why the agent cannot run with these settings; undefined: it can. */
export function familyProblem({ config, families, primaryFamily, node }: FamilyFacts): string | undefined {
  const primary = familyNames[primaryFamily]
  if (!families.includes(primaryFamily)) return `no support for primary IP family "${primary}"`
  const isSingle = families.length === 1
  const cluster = `cluster is ${primary}-${isSingle ? 'only' : 'primary'}`
  const other = familyNames[primaryFamily === 'ipv4' ? 'ipv6' : 'ipv4']
  const isForeign = (networks: readonly Cidr[]): boolean =>
    networks.length > 0 && networks.every(({ family }) => family !== primaryFamily)
  const { detectLocalMode, clusterCIDR } = config
  if (detectLocalMode === 'ClusterCIDR' && isSingle && isForeign(clusterCIDR))
    return `${cluster} but clusterCIDRs contains only ${other} addresses`
  if (detectLocalMode === 'NodeCIDR' && isForeign(node.podCIDRs))
    return `${cluster} but node.spec.podCIDRs contains only ${other} addresses`
  return undefined
}
