// The settings on which the table depends, from the configuration and the facts about this node.
import type { IpFamily } from '../../address.js'
import { localDetectorOf, nodePortAddressesOf } from '../../node/index.js'
import type { TrafficConfig } from '../../engine/index.js'
import type { NftModeSettings, NodeState } from '../../layers/nft-table/index.js'

/** The part of the configuration that the table depends on. */
export interface NftConfig extends TrafficConfig {
  readonly nftables: { readonly masqueradeBit: number; readonly masqueradeAll: boolean }
}

/** The table has no node ports on loopback addresses (F-064). Where the configuration asks for them, the relay serves them. */
export function withoutLocalhost(config: NftConfig): NftConfig {
  return { ...config, iptables: { ...config.iptables, localhostNodePorts: false } }
}

/** `machine`: the machine's own addresses of this family. */
export function nftSettings(
  family: IpFamily,
  config: NftConfig,
  { node, machine }: NodeState,
): NftModeSettings {
  const { masqueradeBit, masqueradeAll } = config.nftables
  return {
    family,
    semantics: 'nftables',
    masqueradeMark: 2 ** masqueradeBit,
    masqueradeAll,
    localDetector: localDetectorOf(config, family, node),
    nodePortAddresses: nodePortAddressesOf({ family, config: withoutLocalhost(config), node }, machine),
    localhostNodePorts: false,
    nodeIP: node.addresses[family],
    nodeName: node.name,
  }
}
