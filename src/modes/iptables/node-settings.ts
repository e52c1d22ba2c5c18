// The settings on which the rules of iptables mode depend, from the configuration and the facts about this node.
import type { IpFamily, IpAddress } from '../../address.js'
import type { IptablesModeSettings } from './compile/settings.js'
import {
  type NodeFacts,
  localDetectorOf,
  nodePortAddressesOf,
  servesLocalhostNodePorts,
} from '../../node/index.js'
import type { NftModeSettings, NodeState } from '../../layers/nft-table/index.js'
import type { TrafficConfig } from '../../engine/index.js'

/** Facts that are not in the configuration: about the Node, this machine and the size of the cluster. */
export interface SeenFacts {
  readonly node: NodeFacts
  /** The machine's own addresses of this family. */
  readonly machine: readonly IpAddress[]
  readonly dropsInvalid: boolean
  readonly withComments: boolean
}

/** The settings of the table of the Services, where x_tables live in nf_tables. `machine`: as in SeenFacts. */
export function tableSettings(
  family: IpFamily,
  config: TrafficConfig,
  { node, machine }: NodeState,
): NftModeSettings {
  const facts = { family, config, node }
  return {
    family,
    semantics: 'iptables',
    masqueradeMark: 2 ** config.iptables.masqueradeBit,
    masqueradeAll: config.iptables.masqueradeAll,
    localDetector: localDetectorOf(config, family, node),
    nodePortAddresses: nodePortAddressesOf(facts, machine),
    localhostNodePorts: servesLocalhostNodePorts(facts),
    nodeIP: node.addresses[family],
    nodeName: node.name,
  }
}

export function iptablesSettings(
  family: IpFamily,
  config: TrafficConfig,
  { node, machine, dropsInvalid, withComments }: SeenFacts,
): IptablesModeSettings {
  const facts = { family, config, node }
  return {
    family,
    masqueradeMark: 2 ** config.iptables.masqueradeBit,
    masqueradeAll: config.iptables.masqueradeAll,
    localDetector: localDetectorOf(config, family, node),
    nodePortAddresses: nodePortAddressesOf(facts, machine),
    localhostNodePorts: servesLocalhostNodePorts(facts),
    dropsInvalid,
    nodeIP: node.addresses[family],
    withComments,
  }
}
