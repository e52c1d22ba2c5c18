import type { PacketRules } from '../../engine/index.js'
import type { LocalDetector } from '../../node/index.js'
import type { RelayRouteSettings } from '../../layers/relay/index.js'
import { iptablesPacketRules } from '../../layers/shared/index.js'

/** How the relay treats connections with these settings (docs/userspace.md). */
export function packetRules(
  { nodePortAddresses, nodeIP }: Pick<RelayRouteSettings, 'nodePortAddresses' | 'nodeIP'>,
  localDetector: LocalDetector | undefined,
): PacketRules {
  return {
    ...iptablesPacketRules,
    nodePortAddresses,
    nodeIP,
    localDetector,
    masqueradeAll: false,
    loopbackNodePorts: [],
    refusedPorts: 'vips',
    refusesNode: true,
    nodePortRefusals: 'none',
    guardsExternalIPs: true,
    isRelayed: true,
    firewallHook: 'input',
    sharedChains: { all: [], accepting: [] },
  }
}
