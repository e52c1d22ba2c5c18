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
} as const satisfies Partial<PacketRules>
