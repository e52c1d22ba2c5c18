import type { PacketRules } from '../../engine/index.js'

/** The choices of kube-proxy's iptables mode. Other modes name what they do otherwise. */
export const iptablesPacketRules = {
  droppedNetworks: [],
  refusedPorts: 'none',
  refusesNode: false,
  nodePortRefusals: 'every-address',
  hairpin: 'all',
  guardsExternalIPs: false,
  guardsWithoutEndpoints: false,
  fallsBackToCluster: false,
  isRelayed: false,
  firewallHook: 'forward',
  sharedChains: {
    all: [
      'KUBE-EXTERNAL-SERVICES',
      'KUBE-FIREWALL',
      'KUBE-FORWARD',
      'KUBE-NODEPORTS',
      'KUBE-PROXY-FIREWALL',
      'KUBE-SERVICES',
    ],
    accepting: ['KUBE-FORWARD', 'KUBE-NODEPORTS'],
  },
} as const satisfies Partial<PacketRules>
