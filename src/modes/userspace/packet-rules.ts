import type { PacketRules } from '../../engine/index.js'
import type { LocalDetector } from '../../node/index.js'
import type { RelayRouteSettings } from '../relay/index.js'
import { iptablesPacketRules } from '../shared/index.js'

/** How the relay treats connections with these settings (docs/userspace.md). */
export function packetRules(
  settings: RelayRouteSettings,
  localDetector: LocalDetector | undefined,
): PacketRules {
  return {
    ...iptablesPacketRules,
    ...settings,
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
