// The rules of a mode for packets, for tests of explain.
import type { PacketRules } from '../../src/engine/index.js'
import { cidr, ip } from './routes.js'

/** Those of iptables mode without a local detector, on a node with the address 192.168.60.11. */
export const packetRules: PacketRules = {
  localDetector: undefined,
  masqueradeAll: false,
  nodePortAddresses: 'all',
  loopbackNodePorts: [],
  nodeIP: ip('192.168.60.11'),
  droppedNetworks: [cidr('10.96.0.0/16')],
  refusedPorts: 'cluster-ips',
  refusesNode: true,
  nodePortRefusals: 'served-addresses',
  hairpin: 'all',
  guardsExternalIPs: true,
  guardsWithoutEndpoints: true,
  fallsBackToCluster: false,
  isRelayed: false,
  firewallHook: 'forward',
  sharedChains: { all: [], accepting: [] },
}
