// Mode settings that follow from the configuration and this node.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpFamily } from '../../../src/address.js'
import { resolveConfig, type ConfigInput } from '../../../src/config/index.js'
import {
  configWarnings,
  areNodePortsEverywhere,
  healthCheckAddressesOf,
  localDetectorOf,
  nodePortAddressesOf,
  servesLocalhostNodePorts,
  type LocalDetector,
} from '../../../src/node/index.js'
import { cidr, ip } from '../../support/routes.js'

function configOf(input: ConfigInput) {
  return resolveConfig({ manifests: 'm', mode: 'iptables', ...input })
}

function byCidr(text: string): LocalDetector {
  return { kind: 'cidr', cidr: cidr(text) }
}

function byName(name: string): LocalDetector {
  return { kind: 'interface', name }
}

describe('the detection of pod traffic', () => {
  const podCIDRs = [cidr('fd00:1::/64'), cidr('10.244.1.0/24'), cidr('10.244.2.0/24')]
  const both = ['10.244.0.0/16', 'fd00:10::/56']
  const cases: readonly {
    name: string
    config: ConfigInput
    ipv4: LocalDetector | undefined
    ipv6: LocalDetector | undefined
  }[] = [
    {
      name: 'ClusterCIDR',
      config: { clusterCIDR: both },
      ipv4: byCidr('10.244.0.0/16'),
      ipv6: byCidr('fd00:10::/56'),
    },
    {
      name: 'ClusterCIDR of one family',
      config: { clusterCIDR: ['10.244.0.0/16'] },
      ipv4: byCidr('10.244.0.0/16'),
      ipv6: undefined,
    },
    { name: 'ClusterCIDR without networks detects none', config: {}, ipv4: undefined, ipv6: undefined },
    {
      name: 'NodeCIDR takes the first network of each family',
      config: { detectLocalMode: 'NodeCIDR', clusterCIDR: both },
      ipv4: byCidr('10.244.1.0/24'),
      ipv6: byCidr('fd00:1::/64'),
    },
    {
      name: 'BridgeInterface',
      config: { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 'cni0' } },
      ipv4: byName('cni0'),
      ipv6: byName('cni0'),
    },
    {
      name: 'InterfaceNamePrefix',
      config: { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: 'veth' } },
      ipv4: byName('veth+'),
      ipv6: byName('veth+'),
    },
  ]
  for (const { name, config, ipv4, ipv6 } of cases) {
    it(name, () => {
      assert.deepEqual(localDetectorOf(configOf(config), 'ipv4', { podCIDRs }), ipv4)
      assert.deepEqual(localDetectorOf(configOf(config), 'ipv6', { podCIDRs }), ipv6)
    })
  }

  it('NodeCIDR on a Node without networks detects none', () => {
    const config = configOf({ detectLocalMode: 'NodeCIDR' })
    assert.equal(localDetectorOf(config, 'ipv4', { podCIDRs: [] }), undefined)
  })
})

describe('the addresses that serve node ports', () => {
  const machine = {
    ipv4: ['192.0.2.9', '127.0.0.1', '198.51.100.1', '192.0.2.10', '192.0.2.9'].map(ip),
    ipv6: ['::1', 'fd00::9', 'fe80::1'].map(ip),
  }
  interface Case {
    readonly name: string
    readonly nodePortAddresses?: readonly string[]
    readonly family?: IpFamily
    readonly localhostNodePorts?: boolean
    readonly node?: { readonly ipv4?: string; readonly ipv6?: string }
    readonly expected: 'all' | readonly string[]
    readonly health?: readonly string[]
    readonly localhost: boolean
  }
  const cases: readonly Case[] = [
    { name: 'F-062 are all by default', expected: 'all', localhost: true },
    {
      name: 'F-064 are all except loopback with localhostNodePorts false',
      localhostNodePorts: false,
      expected: 'all',
      localhost: false,
    },
    {
      name: 'F-064 never include IPv6 loopback',
      family: 'ipv6',
      expected: 'all',
      localhost: false,
    },
    {
      name: 'F-060 are those in the networks, sorted, without duplicates',
      nodePortAddresses: ['192.0.2.0/24'],
      expected: ['192.0.2.10', '192.0.2.9'],
      localhost: false,
    },
    {
      name: 'F-060 are none in a network without local addresses',
      nodePortAddresses: ['203.0.113.0/24'],
      expected: [],
      localhost: false,
    },
    {
      name: 'F-060 are all with networks of only the other family',
      nodePortAddresses: ['fd00::/8'],
      expected: 'all',
      localhost: true,
    },
    {
      name: 'F-060 are all with a network of prefix length 0',
      nodePortAddresses: ['192.0.2.0/24', '0.0.0.0/0'],
      expected: 'all',
      localhost: true,
    },
    {
      name: 'F-060 are not all with prefix length 0 of the other family',
      nodePortAddresses: ['192.0.2.0/24', '::/0'],
      expected: ['192.0.2.10', '192.0.2.9'],
      localhost: false,
    },
    {
      name: 'F-064 include loopback if a network names it',
      nodePortAddresses: ['127.0.0.1/32', '198.51.100.0/24'],
      expected: ['127.0.0.1', '198.51.100.1'],
      localhost: true,
    },
    {
      name: 'F-064 include loopback in a wider network',
      nodePortAddresses: ['0.0.0.0/1'],
      expected: ['127.0.0.1'],
      localhost: true,
    },
    {
      name: 'F-064, F-066 include a named loopback only for health checks with localhostNodePorts false',
      nodePortAddresses: ['127.0.0.0/8', '198.51.100.0/24'],
      localhostNodePorts: false,
      expected: ['198.51.100.1'],
      health: ['127.0.0.1', '198.51.100.1'],
      localhost: false,
    },
    {
      name: 'F-064, F-066 include a named IPv6 loopback only for health checks',
      family: 'ipv6',
      nodePortAddresses: ['::1/128', 'fd00::/8'],
      expected: ['fd00::9'],
      health: ['::1', 'fd00::9'],
      localhost: false,
    },
    {
      name: 'F-061 are the node IP with primary',
      nodePortAddresses: ['primary'],
      node: { ipv4: '192.0.2.9' },
      expected: ['192.0.2.9'],
      localhost: false,
    },
    {
      name: 'F-061, Q-01 are all with primary in a family without a known node IP',
      nodePortAddresses: ['primary'],
      family: 'ipv6',
      node: { ipv4: '192.0.2.9' },
      expected: 'all',
      localhost: false,
    },
    {
      name: 'F-061 are all with primary and an unknown Node',
      nodePortAddresses: ['primary'],
      expected: 'all',
      localhost: true,
    },
    {
      name: 'F-061 are all with primary and a loopback node IP',
      nodePortAddresses: ['primary'],
      node: { ipv4: '127.0.0.1' },
      expected: 'all',
      localhost: true,
    },
    {
      name: 'F-061, F-064 are the node IP and loopback with primary and localhost',
      nodePortAddresses: ['primary', 'localhost'],
      node: { ipv4: '192.0.2.9' },
      expected: ['127.0.0.1', '192.0.2.9'],
      localhost: true,
    },
    {
      name: 'F-061, F-064 are none with primary and localhost in a family without a known node IP',
      nodePortAddresses: ['primary', 'localhost'],
      family: 'ipv6',
      node: { ipv4: '192.0.2.9' },
      expected: [],
      health: ['::1'],
      localhost: false,
    },
    {
      name: 'F-060, F-061 are the node IP and those in the network with both',
      nodePortAddresses: ['primary', '198.51.100.0/24'],
      node: { ipv4: '192.0.2.9' },
      expected: ['192.0.2.9', '198.51.100.1'],
      localhost: false,
    },
    {
      name: 'F-060 are all with the keyword all beside others',
      nodePortAddresses: ['primary', 'all', '192.0.2.0/24'],
      node: { ipv4: '192.0.2.9' },
      expected: 'all',
      localhost: true,
    },
  ]
  for (const { name, node = {}, family = 'ipv4', expected, localhost, ...rest } of cases) {
    it(name, () => {
      const { nodePortAddresses, localhostNodePorts, health = expected } = rest
      const addresses = Object.fromEntries(Object.entries(node).map(([key, text]) => [key, ip(text)]))
      const config = configOf({ nodePortAddresses, iptables: { localhostNodePorts } })
      const facts = { family, config, node: { addresses } }
      assert.deepEqual(nodePortAddressesOf(facts, machine[family]), expected)
      assert.deepEqual(healthCheckAddressesOf(facts, machine[family]), health)
      assert.equal(servesLocalhostNodePorts(facts), localhost)
      assert.equal(areNodePortsEverywhere(facts), expected === 'all' && localhostNodePorts !== false)
    })
  }
})

describe('warnings about valid settings', () => {
  const ipv4 = ip('192.0.2.9')
  const ipv6 = ip('fd00::9')
  const both: readonly IpFamily[] = ['ipv4', 'ipv6']
  const quiet: ConfigInput = { nodePortAddresses: ['primary'], clusterCIDR: ['10.0.0.0/8', 'fd00::/8'] }
  const cases: readonly {
    name: string
    config: ConfigInput
    node: Parameters<typeof configWarnings>[1]['addresses']
    /** Programmed families. Default: both. */
    families?: readonly IpFamily[]
    /** Default: IPv4. */
    primaryFamily?: IpFamily
    /** Networks of the Node's pods. Default: one of IPv4. */
    podCIDRs?: readonly string[]
    expected: readonly RegExp[]
  }[] = [
    { name: 'are none for settings that fit', config: quiet, node: { ipv4, ipv6 }, expected: [] },
    {
      name: 'F-065 all local IPs take node ports',
      config: { ...quiet, nodePortAddresses: [] },
      node: { ipv4 },
      expected: [/^nodePortAddresses is unset; NodePort connections will be accepted on all local IPs\. /u],
    },
    {
      name: 'F-065 networks of one family on a node of both',
      config: { ...quiet, nodePortAddresses: ['192.0.2.0/24'] },
      node: { ipv4, ipv6 },
      expected: [/^nodePortAddresses has no IPv6 network; .* on all local IPv6 addresses$/u],
    },
    {
      name: 'F-065 networks of the wrong family',
      config: { ...quiet, nodePortAddresses: ['fd00::/8'] },
      node: { ipv4 },
      expected: [/^nodePortAddresses has no IPv4 network/u],
    },
    {
      name: 'F-083 a node without IP',
      config: quiet,
      node: {},
      expected: [/^this node's IP is not known: .* --bind-address$/u],
    },
    {
      name: 'F-086 cluster CIDRs of the wrong family',
      config: { ...quiet, clusterCIDR: ['fd00::/8'] },
      node: { ipv4 },
      expected: [/^clusterCIDR has no IPv4 network; .*ClusterCIDR\)$/u],
    },
    {
      name: "F-086 the Node's own networks of the wrong family",
      config: { ...quiet, detectLocalMode: 'NodeCIDR' },
      node: { ipv4, ipv6 },
      expected: [/^spec\.podCIDRs of this Node has no IPv6 network/u],
    },
    {
      name: 'are none about networks when interfaces detect local traffic',
      config: {
        nodePortAddresses: ['primary'],
        detectLocalMode: 'BridgeInterface',
        detectLocal: { bridgeInterface: 'cni0' },
      },
      node: { ipv4 },
      expected: [],
    },
    {
      name: 'F-086 excluded networks of the wrong family, in ipvs mode',
      config: { ...quiet, mode: 'ipvs', ipvs: { excludeCIDRs: ['fd00::/8'] } },
      node: { ipv4 },
      expected: [/^ipvs\.excludeCIDRs has no IPv4 network/u],
    },
    {
      name: 'are none about excluded networks on a node of both families',
      config: { ...quiet, mode: 'ipvs', ipvs: { excludeCIDRs: ['fd00::/8'] } },
      node: { ipv4, ipv6 },
      expected: [],
    },
    {
      name: 'F-064 loopback networks for node ports in nftables mode',
      config: { ...quiet, mode: 'nftables', nodePortAddresses: ['127.0.0.0/8', '::1/128', '192.0.2.0/24'] },
      node: { ipv4, ipv6 },
      expected: [
        /^nodePortAddresses has 127\.0\.0\.0\/8, but nftables mode does not serve node ports on loopback/u,
        /^nodePortAddresses has ::1\/128, but/u,
      ],
    },
    {
      name: 'F-064 the keyword localhost in nftables mode, once for both families',
      config: { ...quiet, mode: 'nftables', nodePortAddresses: ['primary', 'localhost'] },
      node: { ipv4, ipv6 },
      expected: [
        /^nodePortAddresses has localhost, but nftables mode does not serve node ports on loopback/u,
      ],
    },
    {
      name: "are none about the keyword localhost under kube-proxy's gate",
      config: {
        ...quiet,
        mode: 'nftables',
        nodePortAddresses: ['primary', 'localhost'],
        featureGates: { KubeProxyNFTablesLocalhostNodePorts: true },
      },
      node: { ipv4, ipv6 },
      expected: [],
    },
    {
      name: 'are none about node ports with the keyword all, which names every address',
      config: { ...quiet, nodePortAddresses: ['all'] },
      node: { ipv4, ipv6 },
      expected: [],
    },
    {
      name: 'F-065 a network of one family beside localhost, which has both',
      config: { ...quiet, nodePortAddresses: ['192.0.2.0/24', 'localhost'] },
      node: { ipv4, ipv6 },
      expected: [],
    },
    {
      name: 'are none about loopback addresses when all addresses serve node ports',
      config: { ...quiet, mode: 'nftables', nodePortAddresses: ['0.0.0.0/0', '::/0'] },
      node: { ipv4 },
      expected: [],
    },
    {
      name: 'are none about loopback networks in a mode that serves them',
      config: { ...quiet, nodePortAddresses: ['127.0.0.0/8'] },
      node: { ipv4 },
      expected: [],
    },
    {
      name: 'held node ports in a mode that listens on them',
      config: { ...quiet, mode: 'userspace', nodePortHolding: true },
      node: { ipv4 },
      expected: [/^nodePortHolding has no effect in userspace mode/u],
    },
    {
      name: 'F-086 servers of a family that is not programmed',
      config: {
        ...quiet,
        servers: { healthzBindAddress: '[fd00::9]:1', metricsBindAddress: '127.0.0.1:2' },
      },
      node: { ipv4 },
      families: ['ipv4'],
      expected: [/^cluster is IPv4-only but healthzBindAddress is IPv6$/u],
    },
    {
      name: 'are none about servers on all addresses',
      config: { ...quiet, servers: { healthzBindAddress: '[::]:1' } },
      node: { ipv4 },
      families: ['ipv4'],
      expected: [],
    },
    {
      name: 'are none about IPv6 in a cluster of IPv4 alone, whose node has an IPv6 address',
      config: { nodePortAddresses: ['192.0.2.0/24'], clusterCIDR: ['10.0.0.0/8'] },
      node: { ipv4, ipv6 },
      expected: [],
    },
    {
      name: 'are none about IPv4 in a cluster of IPv6 alone, whose node has an IPv4 address',
      config: { nodePortAddresses: ['fd00::/8'], clusterCIDR: ['fd00::/8'] },
      node: { ipv4, ipv6 },
      primaryFamily: 'ipv6',
      expected: [],
    },
    {
      name: 'are none about IPv6 with the pods of a Node of IPv4 alone, and networks of loopback addresses in nftables mode',
      config: {
        mode: 'nftables',
        detectLocalMode: 'NodeCIDR',
        nodePortAddresses: ['192.0.2.0/24', '::1/128'],
      },
      node: { ipv4 },
      expected: [],
    },
    {
      name: 'F-086 no cluster CIDR, for the family of the node alone',
      config: { nodePortAddresses: ['primary'] },
      node: { ipv4, ipv6 },
      expected: [/^clusterCIDR has no IPv4 network/u],
    },
    {
      name: "F-086 a cluster CIDR of one family, while the Node's pods have networks of both",
      config: { nodePortAddresses: ['primary'], clusterCIDR: ['10.0.0.0/8'] },
      node: { ipv4, ipv6 },
      podCIDRs: ['10.244.1.0/24', 'fd00:1::/64'],
      expected: [/^clusterCIDR has no IPv6 network/u],
    },
    {
      name: 'are none about servers when both families are programmed',
      config: { ...quiet, servers: { healthzBindAddress: '[::]:1' } },
      node: { ipv4 },
      expected: [],
    },
  ]
  for (const { name, config, node, families = both, expected, ...more } of cases) {
    it(name, () => {
      const { primaryFamily = 'ipv4', podCIDRs = ['10.244.1.0/24'] } = more
      const warned = { ...configOf(config), families, primaryFamily }
      const sentences = configWarnings(warned, { addresses: node, podCIDRs: podCIDRs.map(cidr) })
      assert.equal(sentences.length, expected.length, sentences.join('\n'))
      for (const [i, pattern] of expected.entries()) assert.match(sentences[i] ?? '', pattern)
    })
  }
})
