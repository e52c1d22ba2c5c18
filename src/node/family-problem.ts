// Settings that do not fit the families of the node (F-085, F-086). The sentences are kube-proxy's.
import type { Cidr, IpFamily } from '../address.js'
import type { Config } from '../config/index.js'
import type { NodeFacts } from './node-tracker.js'

export interface FamilyFacts {
  readonly config: Pick<Config, 'detectLocalMode' | 'clusterCIDR'>
  /** The programmed families. */
  readonly families: readonly IpFamily[]
  readonly primaryFamily: IpFamily
  readonly node: Pick<NodeFacts, 'podCIDRs'>
}

export const familyNames: Readonly<Record<IpFamily, string>> = { ipv4: 'IPv4', ipv6: 'IPv6' }

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
