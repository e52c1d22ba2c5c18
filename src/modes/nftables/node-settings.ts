// The settings on which the rules of nftables mode depend, from the configuration and the facts about this node.
import type { IpAddress, IpFamily } from '../../address.js'
import type { Config } from '../../config/index.js'
import { type NodeFacts, localDetectorOf, nodePortAddressesOf } from '../../node/index.js'
import type { TrafficConfig } from '../shared/index.js'
import type { NftModeSettings } from './compile/settings.js'

/** The part of the configuration that decides in nftables mode how packets reach Services. */
export type NftConfig = TrafficConfig & Pick<Config, 'nftables'>

/** F-064: node ports are never on loopback addresses in this mode. */
export function withoutLocalhost<C extends TrafficConfig>(config: C): C {
  return { ...config, iptables: { ...config.iptables, localhostNodePorts: false } }
}

/** `machine`: the machine's own addresses of this family. */
export function nftSettings(
  family: IpFamily,
  config: NftConfig,
  { node, machine }: { readonly node: NodeFacts; readonly machine: readonly IpAddress[] },
): NftModeSettings {
  const { masqueradeBit, masqueradeAll } = config.nftables
  return {
    family,
    masqueradeMark: 2 ** masqueradeBit,
    masqueradeAll,
    localDetector: localDetectorOf(config, family, node),
    nodePortAddresses: nodePortAddressesOf({ family, config: withoutLocalhost(config), node }, machine),
    nodeIP: node.addresses[family],
    nodeName: node.name,
  }
}
