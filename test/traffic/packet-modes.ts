// The rules of packets of every mode, from the configuration and the facts about a node.
import type { Cidr, IpAddress, IpFamily } from '../../src/address.js'
import type { Config, ProxyMode } from '../../src/config/index.js'
import type { PacketRules } from '../../src/engine/index.js'
import { iptablesSettings, tableSettings } from '../../src/modes/iptables/node-settings.js'
import { packetRules as iptablesRules } from '../../src/modes/iptables/view.js'
import { packetRules as ipvsRules } from '../../src/modes/ipvs/view.js'
import { packetRules as tableRules } from '../../src/layers/nft-table/packet-rules.js'
import { nftSettings } from '../../src/modes/nftables/node-settings.js'
import { packetRules as userspaceRules } from '../../src/modes/userspace/view.js'
import {
  isLoopback,
  localDetectorOf,
  type NodeFacts,
  nodePortAddressesOf,
  nodePortSockets,
} from '../../src/node/index.js'
import { inIptablesNft } from './table-in-iptables-nft.js'
import { inIpvs } from './table-in-ipvs.js'
import { inNftables } from './table-in-nftables.js'
import { inUserspace } from './table-in-userspace.js'
import type { TrafficGroup } from './table/index.js'

interface Facts {
  readonly node: NodeFacts
  readonly machine: readonly IpAddress[]
  readonly serviceCidrs: readonly Cidr[]
}

export interface PacketMode {
  readonly proxyMode: ProxyMode
  /** The groups as the mode has to meet them. */
  readonly groups: (groups: readonly TrafficGroup[]) => readonly TrafficGroup[]
  readonly rules: (family: IpFamily, config: Config, facts: Facts) => PacketRules
}

export const rulesOfModes: Readonly<Record<string, PacketMode>> = {
  iptables: {
    proxyMode: 'iptables',
    groups: (groups) => groups,
    rules: (family, config, { node, machine }) =>
      iptablesRules(
        iptablesSettings(family, config, { node, machine, dropsInvalid: true, withComments: true }),
      ),
  },
  'iptables-nft': {
    proxyMode: 'iptables',
    groups: inIptablesNft,
    rules: (family, config, facts) => tableRules(tableSettings(family, config, facts), facts),
  },
  nftables: {
    proxyMode: 'nftables',
    groups: inNftables,
    rules: (family, config, facts) => tableRules(nftSettings(family, withNftFlags(config), facts), facts),
  },
  ipvs: {
    proxyMode: 'ipvs',
    groups: inIpvs,
    rules: (family, config, { node, machine }) => {
      const own = machine.filter((address) => !isLoopback(address))
      const named = nodePortAddressesOf({ family, config, node }, own)
      return ipvsRules({
        nodePortAddresses: named === 'all' ? own : named,
        nodeIP: node.addresses[family],
        localDetector: localDetectorOf(config, family, node),
        masqueradeAll: config.iptables.masqueradeAll,
        relayedLoopback: undefined,
        marks: { mask: config.ipvs.markMask, masqueradeMark: 0, of: () => 0x1000 },
      })
    },
  },
  userspace: {
    proxyMode: 'userspace',
    groups: inUserspace,
    rules: (family, config, { node, machine }) =>
      userspaceRules(
        {
          nodePortAddresses: nodePortSockets({ family, config, node }, machine),
          nodeIP: node.addresses[family],
        },
        localDetectorOf(config, family, node),
      ),
  },
}

/** The settings of nftables mode have no flags. */
function withNftFlags(config: Config): Config {
  return { ...config, nftables: { ...config.nftables, masqueradeAll: config.iptables.masqueradeAll } }
}
