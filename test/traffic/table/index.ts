// The traffic table: groups of cases, one run of the agent each. Data alone: who runs it chooses the mode and the protocols.
import { affinityCases } from './affinity.js'
import { besideCases, unknownPodsCase } from './beside.js'
import type { LocalDetection, TrafficGroup, TrafficSettings } from './case.js'
import { changeCases } from './changes.js'
import {
  closedExternalIPCase,
  elsewhereCases,
  occupiedNodePortCase,
  unknownAddressCase,
} from './elsewhere.js'
import { endpointCases } from './endpoints.js'
import {
  closedFirewallCases,
  foreignMarkCases,
  healthAddressCase,
  healthCases,
  loopbackCases,
  noLoopbackCases,
  nodePortAddressCase,
  singleProtocolCase,
  sourceRangeCases,
  strayCase,
} from './exposure.js'
import { lifeCases, takeoverCases } from './life.js'
import { ipv4ClusterCIDR, matrix, oneFamilyCase } from './matrix.js'
import { serviceCases } from './services.js'
import { type CaseAt, placed } from './slot.js'
import { withoutClusterIPCases } from './without-cluster-ip.js'
import { addresses, clusterNetwork, type Protocol, secondNodeAddress } from './world.js'

export type * from './case.js'

const clusterCIDR: LocalDetection = { mode: 'ClusterCIDR', networks: clusterNetwork }
const detections: readonly LocalDetection[] = [
  { mode: 'NodeCIDR' },
  { mode: 'BridgeInterface', name: 'cbr0' },
  { mode: 'InterfaceNamePrefix', prefix: 'pod' },
]

type GroupAt = Omit<TrafficGroup, 'cases'> & { readonly cases: readonly CaseAt[] }

function matrixOf(settings: TrafficSettings): readonly CaseAt[] {
  return matrix({ detection: settings.detectLocal, masqueradeAll: settings.masqueradeAll ?? false })
}

const masqueradeAll: TrafficSettings = {
  detectLocal: clusterCIDR,
  masqueradeAll: true,
  masqueradeBit: 5,
  localhostNodePorts: false,
}

const groups: readonly GroupAt[] = [
  {
    name: 'local traffic known by ClusterCIDR',
    settings: { detectLocal: clusterCIDR },
    cases: [
      ...matrixOf({ detectLocal: clusterCIDR }),
      ...serviceCases,
      singleProtocolCase,
      ...endpointCases,
      ...sourceRangeCases,
      ...elsewhereCases,
      ...loopbackCases,
      ...healthCases,
      ...affinityCases,
      strayCase('dropped'),
      ...changeCases,
      ...withoutClusterIPCases,
    ],
  },
  {
    name: 'local traffic not known',
    settings: {},
    cases: [...matrixOf({}), unknownPodsCase, occupiedNodePortCase],
  },
  ...detections.map((detectLocal) => ({
    name: `local traffic known by ${detectLocal.mode}`,
    settings: { detectLocal },
    cases: matrixOf({ detectLocal }),
  })),
  {
    name: 'local traffic of IPv4 alone known by ClusterCIDR',
    settings: { detectLocal: ipv4ClusterCIDR },
    cases: [oneFamilyCase],
  },
  {
    name: 'masquerade all, by another bit; no localhost node ports; liberal conntrack',
    settings: masqueradeAll,
    node: {
      sysctls: ['net.netfilter.nf_conntrack_tcp_be_liberal=1'],
      firewall: ['-t mangle -A PREROUTING -j MARK --set-mark 0x4000'],
      undo: ['-t mangle -F PREROUTING'],
    },
    cases: [...matrixOf(masqueradeAll), ...foreignMarkCases, ...noLoopbackCases, strayCase('arrives')],
  },
  {
    name: 'node ports on one network of IPv4; a firewall that lets nothing through',
    settings: { detectLocal: clusterCIDR, nodePortAddresses: ['192.168.60.0/24'] },
    node: {
      sysctls: ['net.netfilter.nf_conntrack_tcp_be_liberal=0'],
      firewall: [
        '-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
        '-A INPUT ! -p tcp -j ACCEPT',
        '-P INPUT DROP',
        '-P FORWARD DROP',
      ],
      undo: ['-P INPUT ACCEPT', '-P FORWARD ACCEPT', '-F INPUT'],
    },
    cases: closedFirewallCases,
  },
  {
    name: "others' rules at INPUT: a bit in every mark, node ports of TCP closed",
    settings: { detectLocal: clusterCIDR },
    node: {
      firewall: ['-A INPUT -j MARK --or-mark 0x100000', '-A INPUT -p tcp --dport 30000:32767 -j DROP'],
      undo: ['-F INPUT'],
    },
    cases: besideCases,
  },
  {
    name: 'node ports on networks of IPv4 alone',
    settings: { detectLocal: clusterCIDR, nodePortAddresses: ['192.168.62.0/24', '172.16.0.0/12'] },
    cases: [
      nodePortAddressCase('IPv6, which none of the networks is of, serves every address', {
        IPv4: [secondNodeAddress],
        IPv6: [addresses.node, secondNodeAddress],
      }),
      ...noLoopbackCases,
    ],
  },
  {
    name: 'node ports on networks of both families',
    settings: { detectLocal: clusterCIDR, nodePortAddresses: ['192.168.62.0/24', 'fd00:192:168:62::/64'] },
    cases: [
      nodePortAddressCase('only the addresses in the networks serve', {
        IPv4: [secondNodeAddress],
        IPv6: [secondNodeAddress],
      }),
      healthAddressCase,
    ],
  },
  {
    name: 'node ports on one network and the loopback',
    settings: {
      detectLocal: clusterCIDR,
      nodePortAddresses: ['192.168.62.0/24', '127.0.0.0/8', 'fd00:192:168:62::/64'],
    },
    cases: [
      nodePortAddressCase('the loopback among the networks shuts out no less', {
        IPv4: [secondNodeAddress],
        IPv6: [secondNodeAddress],
      }),
      ...loopbackCases,
    ],
  },
  {
    name: 'node ports on a network of everything beside others',
    settings: { detectLocal: clusterCIDR, nodePortAddresses: ['192.168.62.0/24', '0.0.0.0/0', '::/0'] },
    cases: [
      nodePortAddressCase('every address serves', {
        IPv4: [addresses.node, secondNodeAddress],
        IPv6: [addresses.node, secondNodeAddress],
      }),
      ...loopbackCases,
    ],
  },
  {
    name: 'node ports on the primary addresses',
    settings: { detectLocal: clusterCIDR, nodePortAddresses: ['primary'] },
    cases: [
      nodePortAddressCase('only the addresses of the Node object serve', {
        IPv4: [addresses.node],
        IPv6: [addresses.node],
      }),
    ],
  },
  {
    name: 'node ports on the primary addresses and the loopback, by keywords',
    settings: { detectLocal: clusterCIDR, nodePortAddresses: ['primary', 'localhost'] },
    cases: [
      nodePortAddressCase('the keyword localhost beside primary shuts out no less', {
        IPv4: [addresses.node],
        IPv6: [addresses.node],
      }),
      ...loopbackCases,
    ],
  },
  {
    name: 'external IPs not allowed',
    settings: { detectLocal: clusterCIDR, allowsExternalIPs: false },
    cases: [closedExternalIPCase],
  },
  {
    name: 'a ServiceCIDR with addresses of machines',
    settings: { detectLocal: clusterCIDR },
    cases: [unknownAddressCase],
  },
  {
    name: 'the life of the agent',
    settings: { detectLocal: clusterCIDR },
    isSequential: true,
    cases: lifeCases,
  },
  {
    name: 'the agent after kube-proxy',
    settings: { detectLocal: clusterCIDR },
    predecessor: 'kube-proxy',
    isSequential: true,
    cases: takeoverCases,
  },
]

/** Every group with its cases in these protocols. No two cases of any groups share an address. */
export function trafficTable(protocols: readonly Protocol[]): readonly TrafficGroup[] {
  let first = 1
  return groups.map((group) => {
    const cases = placed(group.cases, protocols, first)
    first += cases.length
    return { ...group, cases }
  })
}
