import type { IpAddress } from '../../address.js'
import type { PacketRules, ServiceMarks } from '../../engine/index.js'
import { hostCidr } from '../../layers/relay/index.js'
import { iptablesPacketRules } from '../../layers/shared/index.js'
import type { IpvsChainSettings } from '../../layers/ipvs/index.js'
import type { IpvsModeSettings } from './compile/compile.js'

/** The settings that decide about packets. */
export type PacketSettings = Pick<IpvsModeSettings, 'nodePortAddresses' | 'nodeIP'> &
  Pick<IpvsChainSettings, 'localDetector' | 'masqueradeAll'> & {
    /** The loopback address on which the relay serves node ports; undefined: none. */
    readonly relayedLoopback: IpAddress | undefined
    readonly marks: Omit<ServiceMarks, 'chains'>
  }

/** How ipvs mode treats packets with these settings (docs/ipvs.md). */
export function packetRules({ relayedLoopback, marks, ...settings }: PacketSettings): PacketRules {
  return {
    ...iptablesPacketRules,
    ...settings,
    relayedLoopback,
    loopbackNodePorts: relayedLoopback === undefined ? [] : [hostCidr(relayedLoopback)],
    refusedPorts: 'vips',
    refusesNode: true,
    nodePortRefusals: 'served-addresses',
    guardsExternalIPs: true,
    fallsBackToCluster: true,
    firewallHook: 'input',
    nat: { order: -100, chain: 'KUBE-SERVICES' },
    marks: { ...marks, chains: ['KUBE-IPVS-IN', 'KUBE-IPVS-OUT'] },
    sharedChains: {
      all: [
        'KUBE-FIREWALL',
        'KUBE-FORWARD',
        'KUBE-IPVS-FILTER',
        'KUBE-IPVS-IN',
        'KUBE-IPVS-OUT',
        'KUBE-NODE-PORT',
        'KUBE-PROXY-FIREWALL',
      ],
      accepting: ['KUBE-FORWARD', 'KUBE-NODE-PORT'],
    },
  }
}
