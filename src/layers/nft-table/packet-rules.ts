import type { Cidr, IpAddress } from '../../address.js'
import type { PacketRules } from '../../engine/index.js'
import { loopbackNetworks } from '../../node/index.js'
import { hostCidr } from '../relay/index.js'
import { iptablesPacketRules } from '../shared/index.js'
import type { NftModeSettings } from './compile/settings.js'

/** Facts about packets that are not in the settings of the table. */
export interface PacketFacts {
  /** Networks of cluster IPs. */
  readonly serviceCidrs: readonly Cidr[]
  /** The loopback address on which the relay serves node ports. */
  readonly relayedLoopback?: IpAddress | undefined
}

/** How the table treats packets with these settings (docs/nftables.md). */
export function packetRules(
  settings: NftModeSettings,
  { serviceCidrs, relayedLoopback }: PacketFacts,
): PacketRules {
  const { semantics, localDetector, masqueradeAll, nodePortAddresses, localhostNodePorts, nodeIP } = settings
  const isNftables = semantics === 'nftables'
  const network = localhostNodePorts && nodePortAddresses === 'all' ? [loopbackNetworks.ipv4] : []
  return {
    ...iptablesPacketRules,
    localDetector,
    masqueradeAll,
    nodePortAddresses,
    relayedLoopback,
    loopbackNodePorts: relayedLoopback === undefined ? network : [hostCidr(relayedLoopback)],
    nodeIP,
    nat: { order: -101 },
    ...(isNftables
      ? {
          droppedNetworks: serviceCidrs,
          refusedPorts: 'cluster-ips',
          refusesNode: true,
          nodePortRefusals: 'served-addresses',
          hairpin: 'this-node',
          guardsExternalIPs: true,
          guardsWithoutEndpoints: true,
          sharedChains: { all: [], accepting: [] },
        }
      : {}),
  }
}
