import type { PacketRules } from '../../engine/index.js'
import { loopbackNetworks } from '../../node/index.js'
import { iptablesPacketRules } from '../../layers/shared/index.js'
import { chainNames } from '../../layers/xtables/index.js'
import type { IptablesModeSettings } from './compile/settings.js'

/** How iptables mode treats packets with these settings. */
export function packetRules(settings: IptablesModeSettings): PacketRules {
  const { localDetector, masqueradeAll, nodePortAddresses, localhostNodePorts, nodeIP } = settings
  return {
    ...iptablesPacketRules,
    localDetector,
    masqueradeAll,
    nodePortAddresses,
    loopbackNodePorts: localhostNodePorts && nodePortAddresses === 'all' ? [loopbackNetworks.ipv4] : [],
    nodeIP,
    nat: { order: -100, chain: chainNames.services },
  }
}
