import type { Cidr, IpFamily } from '../address.js'
import type { Config } from '../config/index.js'
import type { NodeFacts } from './node-tracker.js'

/** The rule that recognizes traffic of this node's pods. */
export type LocalDetector =
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  /** The exact name of a bridge, or a prefix of names that ends in `+`. */
  | { readonly kind: 'interface'; readonly name: string }

export type LocalDetectorConfig = Pick<Config, 'detectLocalMode' | 'detectLocal' | 'clusterCIDR'>

/** The detector of one family. undefined: no network of the family is known, so no rule can recognize the traffic. */
export function localDetectorOf(
  config: LocalDetectorConfig,
  family: IpFamily,
  node: Pick<NodeFacts, 'podCIDRs'>,
): LocalDetector | undefined {
  switch (config.detectLocalMode) {
    case 'ClusterCIDR':
      return byFirst(config.clusterCIDR, family)
    case 'NodeCIDR':
      return byFirst(node.podCIDRs, family)
    case 'BridgeInterface':
      return { kind: 'interface', name: config.detectLocal.bridgeInterface }
    case 'InterfaceNamePrefix':
      return { kind: 'interface', name: `${config.detectLocal.interfaceNamePrefix}+` }
  }
}

function byFirst(networks: readonly Cidr[], family: IpFamily): LocalDetector | undefined {
  const cidr = networks.find((network) => network.family === family)
  return cidr === undefined ? undefined : { kind: 'cidr', cidr }
}
