import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { printTransaction } from '../../../../src/kernel/index.js'
import { type NftModeSettings } from '../../../../src/layers/nft-table/index.js'
import {
  compileStructure,
  type OwnList,
  type Structure,
  type StructureUse,
  schemaOf,
} from '../../../../src/layers/nft-table/testing.js'
import { StructureState } from '../../../../src/layers/nft-table/tables/structure-state.js'
import { makeNftSettings, structureOps } from '../../../support/nft-table.js'
import { cidr, ip } from '../../../support/routes.js'

interface SomeUse {
  readonly counts?: readonly number[]
  readonly shortCircuitCounts?: readonly number[]
  readonly ownLists?: readonly OwnList[]
}

function use({ counts = [], shortCircuitCounts = [], ownLists = [] }: SomeUse = {}) {
  return {
    counts: new Set(counts),
    shortCircuitCounts: new Set(shortCircuitCounts),
    ownLists: new Set(ownLists),
  }
}

const nothing: StructureUse = { services: use(), nodePorts: use(), prefixLengths: new Set() }

const digits = Array.from({ length: 16 }, (_, digit) => digit)
const lastDigits = digits.map((digit) => `0.0.0.${digit} . 0.0.0.${digit}`)
const firstDigits = digits.map((digit) => `${16 * digit}.0.0.0 . ${16 * digit}.0.0.0`)

function commands(settings: NftModeSettings, rest: Partial<StructureUse>): readonly string[] {
  const ops = structureOps(compileStructure(settings, { ...nothing, ...rest }))
  return printTransaction(ops).trimEnd().split('\n')
}

/** Elements of a verdict map that lead to the endpoints `from` to `to` - 1. */
function endpoints(from: number, to: number): string {
  return Array.from({ length: to - from }, (_, nth) => `${nth} : goto service-endpoint-${from + nth}`).join(
    ', ',
  )
}

function chainsFor(...counts: readonly number[]): Structure['chains'] {
  return compileStructure(makeNftSettings(), { ...nothing, services: use({ counts }) }).chains
}

/** Number of commands for Services with 1 to `largest` endpoints. */
function sizeFor(largest: number): number {
  const counts = Array.from({ length: largest }, (_, index) => index + 1)
  return commands(makeNftSettings(), { services: use({ counts }) }).length
}

/** The rules of some chains, without the words that all of them begin with. */
function rulesOf(settings: NftModeSettings, rest: Partial<StructureUse>, chains: RegExp): readonly string[] {
  const prefix = /^add rule ip6? kube-proxy /
  return commands(settings, rest)
    .filter((line) => prefix.test(line))
    .map((line) => line.replace(prefix, ''))
    .filter((line) => chains.test(line))
}

describe('the structure of nftables mode', () => {
  it('prints as commands of nft', () => {
    const settings = makeNftSettings('ipv6', { nodePortAddresses: [ip('2001:db8::1')] })
    assert.equal(
      commands(settings, { services: use({ counts: [1] }) }).join('\n'),
      [
        'add table ip6 kube-proxy { comment "rules for Services" ; }',
        'add set ip6 kube-proxy cluster-ips { type ipv6_addr ; comment "Active ClusterIPs" ; }',
        'add set ip6 kube-proxy nodeport-ips { type ipv6_addr ; comment "IPs that accept NodePort traffic" ; }',
        'add set ip6 kube-proxy service-cidrs { type ipv6_addr ; flags interval ; comment "networks of ClusterIPs" ; }',
        'add set ip6 kube-proxy hairpin-connections { type ipv6_addr . ipv6_addr . inet_proto . inet_service ; comment "service hairpin connections" ; }',
        'add set ip6 kube-proxy services-with-endpoints { type ipv6_addr . inet_proto . inet_service ; comment "services with endpoints" ; }',
        'add set ip6 kube-proxy services-with-1 { type ipv6_addr . inet_proto . inet_service ; comment "services with 1 endpoint" ; }',
        'add map ip6 kube-proxy service-endpoint-0 { type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service ; comment "endpoint 0 of services" ; }',
        'add set ip6 kube-proxy short-circuit-services-with-endpoints { type ipv6_addr . inet_proto . inet_service ; comment "services with endpoints for pods and this node" ; }',
        'add set ip6 kube-proxy masqueraded-services { type ipv6_addr . inet_proto . inet_service ; comment "services whose clients are masqueraded" ; }',
        'add set ip6 kube-proxy rejected-services { type ipv6_addr . inet_proto . inet_service ; comment "services without endpoints" ; }',
        'add set ip6 kube-proxy dropped-services { type ipv6_addr . inet_proto . inet_service ; comment "services without endpoints on this node" ; }',
        'add set ip6 kube-proxy nodeports-with-endpoints { type inet_proto . inet_service ; comment "nodeports with endpoints" ; }',
        'add set ip6 kube-proxy short-circuit-nodeports-with-endpoints { type inet_proto . inet_service ; comment "nodeports with endpoints for pods and this node" ; }',
        'add set ip6 kube-proxy masqueraded-nodeports { type inet_proto . inet_service ; comment "nodeports whose clients are masqueraded" ; }',
        'add set ip6 kube-proxy rejected-nodeports { type inet_proto . inet_service ; comment "nodeports without endpoints" ; }',
        'add set ip6 kube-proxy dropped-nodeports { type inet_proto . inet_service ; comment "nodeports without endpoints on this node" ; }',
        'add set ip6 kube-proxy firewalled-services { type ipv6_addr . inet_proto . inet_service ; comment "services with loadBalancerSourceRanges" ; }',
        'add chain ip6 kube-proxy services',
        'add chain ip6 kube-proxy service-traffic',
        'add chain ip6 kube-proxy service-with-1',
        'add chain ip6 kube-proxy service-endpoint-0',
        'add chain ip6 kube-proxy nodeports',
        'add chain ip6 kube-proxy nodeport-traffic',
        'add chain ip6 kube-proxy masquerading',
        'add chain ip6 kube-proxy service-endpoints-check',
        'add chain ip6 kube-proxy nodeport-endpoints-check',
        'add chain ip6 kube-proxy cluster-ips-check',
        'add chain ip6 kube-proxy firewall-check',
        'add chain ip6 kube-proxy firewall',
        'add chain ip6 kube-proxy filter-prerouting-pre-dnat { type filter hook prerouting priority -110 ; policy accept ; }',
        'add chain ip6 kube-proxy filter-output-pre-dnat { type filter hook output priority -110 ; policy accept ; }',
        'add chain ip6 kube-proxy filter-input { type filter hook input priority -1 ; policy accept ; }',
        'add chain ip6 kube-proxy filter-forward { type filter hook forward priority -1 ; policy accept ; }',
        'add chain ip6 kube-proxy filter-output { type filter hook output priority -1 ; policy accept ; }',
        'add chain ip6 kube-proxy nat-prerouting { type nat hook prerouting priority -101 ; policy accept ; }',
        'add chain ip6 kube-proxy nat-output { type nat hook output priority -101 ; policy accept ; }',
        'add chain ip6 kube-proxy nat-postrouting { type nat hook postrouting priority 99 ; policy accept ; }',
        'add rule ip6 kube-proxy services ip6 daddr . meta l4proto . th dport @services-with-endpoints goto service-traffic',
        'add rule ip6 kube-proxy services ip6 daddr @nodeport-ips goto nodeports',
        'add rule ip6 kube-proxy service-traffic ip6 daddr . meta l4proto . th dport @masqueraded-services meta mark set meta mark | 0x00004000',
        'add rule ip6 kube-proxy service-traffic ip6 daddr . meta l4proto . th dport @services-with-1 goto service-with-1',
        'add rule ip6 kube-proxy service-traffic goto service-endpoint-0',
        'add rule ip6 kube-proxy service-with-1 goto service-endpoint-0',
        'add rule ip6 kube-proxy service-endpoint-0 dnat ip6 to ip6 daddr . meta l4proto . th dport map @service-endpoint-0',
        'add rule ip6 kube-proxy nodeports meta l4proto . th dport @nodeports-with-endpoints goto nodeport-traffic',
        'add rule ip6 kube-proxy nodeport-traffic meta l4proto . th dport @masqueraded-nodeports meta mark set meta mark | 0x00004000',
        'add rule ip6 kube-proxy masquerading meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random',
        'add rule ip6 kube-proxy masquerading ct status dnat ip6 saddr . ip6 daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random',
        'add rule ip6 kube-proxy service-endpoints-check ip6 daddr . meta l4proto . th dport @dropped-services drop',
        'add rule ip6 kube-proxy service-endpoints-check ip6 daddr . meta l4proto . th dport @rejected-services reject with icmpv6 port-unreachable',
        'add rule ip6 kube-proxy nodeport-endpoints-check ip6 daddr @nodeport-ips meta l4proto . th dport @dropped-nodeports drop',
        'add rule ip6 kube-proxy nodeport-endpoints-check ip6 daddr @nodeport-ips meta l4proto . th dport @rejected-nodeports reject with icmpv6 port-unreachable',
        'add rule ip6 kube-proxy cluster-ips-check ip6 daddr @cluster-ips reject with icmpv6 port-unreachable comment "Reject traffic to invalid ports of ClusterIPs"',
        'add rule ip6 kube-proxy cluster-ips-check ip6 daddr @service-cidrs drop comment "Drop traffic to unallocated ClusterIPs"',
        'add rule ip6 kube-proxy firewall-check ip6 daddr . meta l4proto . th dport @firewalled-services goto firewall',
        'add rule ip6 kube-proxy firewall drop',
        'add rule ip6 kube-proxy filter-prerouting-pre-dnat ct state new jump firewall-check',
        'add rule ip6 kube-proxy filter-output-pre-dnat ct state new jump firewall-check',
        'add rule ip6 kube-proxy filter-input ct state new jump nodeport-endpoints-check',
        'add rule ip6 kube-proxy filter-input ct state new jump service-endpoints-check',
        'add rule ip6 kube-proxy filter-forward ct state new jump service-endpoints-check',
        'add rule ip6 kube-proxy filter-forward ct state new jump cluster-ips-check',
        'add rule ip6 kube-proxy filter-output ct state new jump service-endpoints-check',
        'add rule ip6 kube-proxy filter-output ct state new jump cluster-ips-check',
        'add rule ip6 kube-proxy nat-prerouting jump services',
        'add rule ip6 kube-proxy nat-output jump services',
        'add rule ip6 kube-proxy nat-postrouting jump masquerading',
      ].join('\n'),
    )
  })

  const cases: readonly {
    readonly name: string
    readonly settings?: Partial<NftModeSettings>
    readonly use: Partial<StructureUse>
    readonly chains: RegExp
    readonly rules: readonly string[]
  }[] = [
    {
      name: 'F-047 all connections to cluster IPs are masqueraded',
      settings: { masqueradeAll: true, localDetector: { kind: 'interface', name: 'cali+' } },
      use: {},
      chains: /@cluster-ips .*mark/,
      rules: [
        'service-traffic ip daddr @cluster-ips meta mark set meta mark | 0x00004000 comment "masquerade all clusterIP traffic"',
      ],
    },
    {
      name: 'F-048 those of other interfaces',
      settings: { localDetector: { kind: 'interface', name: 'cali+' } },
      use: {},
      chains: /@cluster-ips .*mark/,
      rules: [
        'service-traffic ip daddr @cluster-ips meta iifname != "cali*" meta mark set meta mark | 0x00004000 comment "masquerade clusterIP traffic from outside cluster"',
      ],
    },
    {
      name: 'F-048 none without a detector',
      use: {},
      chains: /@cluster-ips .*mark/,
      rules: [],
    },
    {
      name: 'F-051 short circuits of pods and of the node, with session affinity',
      settings: { localDetector: { kind: 'cidr', cidr: cidr('10.244.1.0/24') } },
      use: {
        services: use({ counts: [2], shortCircuitCounts: [3], ownLists: ['endpoints', 'shortCircuit'] }),
      },
      chains: /^(services|service-traffic|own-\S+|short-circuit-\S+) /,
      rules: [
        'services ip daddr . meta l4proto . th dport @services-with-endpoints goto service-traffic',
        'services ip daddr . meta l4proto . th dport @short-circuit-services-with-endpoints goto short-circuit-service-sources',
        'services ip daddr . meta l4proto . th dport @services-with-own-chain goto own-service-traffic',
        'services ip daddr . meta l4proto . th dport @short-circuit-services-with-own-chain goto short-circuit-own-service-sources',
        'services fib daddr type local ip daddr != 127.0.0.0/8 goto nodeports',
        'service-traffic ip daddr @cluster-ips ip saddr != 10.244.1.0/24 meta mark set meta mark | 0x00004000 comment "masquerade clusterIP traffic from outside cluster"',
        'service-traffic ip daddr . meta l4proto . th dport @masqueraded-services meta mark set meta mark | 0x00004000',
        'service-traffic ip daddr . meta l4proto . th dport @short-circuit-services-with-endpoints jump short-circuit-service-sources',
        'service-traffic ip daddr . meta l4proto . th dport @services-with-2 goto service-with-2',
        'service-traffic goto service-endpoint-0',
        'short-circuit-service-sources ip saddr 10.244.1.0/24 goto short-circuit-service-traffic comment "short-circuit pod traffic"',
        'short-circuit-service-sources fib saddr type local meta mark set meta mark | 0x00004000 comment "masquerade local traffic"',
        'short-circuit-service-sources fib saddr type local goto short-circuit-service-traffic comment "short-circuit local traffic"',
        'short-circuit-service-traffic ip daddr . meta l4proto . th dport @short-circuit-services-with-3 goto short-circuit-service-with-3',
        'short-circuit-service-traffic goto short-circuit-service-endpoint-0',
        'short-circuit-service-with-3 numgen random mod 3 vmap { 0 : goto short-circuit-service-endpoint-0, 1 : goto short-circuit-service-endpoint-1, 2 : goto short-circuit-service-endpoint-2 }',
        'short-circuit-service-with-3 goto short-circuit-service-endpoint-0',
        'short-circuit-service-endpoint-0 dnat ip to ip daddr . meta l4proto . th dport map @short-circuit-service-endpoint-0',
        'short-circuit-service-endpoint-1 dnat ip to ip daddr . meta l4proto . th dport map @short-circuit-service-endpoint-1',
        'short-circuit-service-endpoint-1 goto short-circuit-service-endpoint-0',
        'short-circuit-service-endpoint-2 dnat ip to ip daddr . meta l4proto . th dport map @short-circuit-service-endpoint-2',
        'short-circuit-service-endpoint-2 goto short-circuit-service-endpoint-0',
        'own-service-traffic ip daddr @cluster-ips ip saddr != 10.244.1.0/24 meta mark set meta mark | 0x00004000 comment "masquerade clusterIP traffic from outside cluster"',
        'own-service-traffic ip daddr . meta l4proto . th dport @masqueraded-services meta mark set meta mark | 0x00004000',
        'own-service-traffic ip daddr . meta l4proto . th dport @short-circuit-services-with-own-chain jump short-circuit-own-service-sources',
        'own-service-traffic ip daddr . meta l4proto . th dport vmap @own-services',
        'short-circuit-own-service-sources ip saddr 10.244.1.0/24 goto short-circuit-own-service-traffic comment "short-circuit pod traffic"',
        'short-circuit-own-service-sources fib saddr type local meta mark set meta mark | 0x00004000 comment "masquerade local traffic"',
        'short-circuit-own-service-sources fib saddr type local goto short-circuit-own-service-traffic comment "short-circuit local traffic"',
        'short-circuit-own-service-traffic ip daddr . meta l4proto . th dport vmap @short-circuit-own-services',
      ],
    },
    {
      name: 'F-051 without a detector only those of the node',
      use: { nodePorts: use({ shortCircuitCounts: [1] }) },
      chains: /^(nodeports|nodeport-traffic|short-circuit-\S+) /,
      rules: [
        'nodeports meta l4proto . th dport @nodeports-with-endpoints goto nodeport-traffic',
        'nodeports meta l4proto . th dport @short-circuit-nodeports-with-endpoints goto short-circuit-nodeport-sources',
        'nodeport-traffic meta l4proto . th dport @masqueraded-nodeports meta mark set meta mark | 0x00004000',
        'nodeport-traffic meta l4proto . th dport @short-circuit-nodeports-with-endpoints jump short-circuit-nodeport-sources',
        'short-circuit-nodeport-sources fib saddr type local meta mark set meta mark | 0x00004000 comment "masquerade local traffic"',
        'short-circuit-nodeport-sources fib saddr type local goto short-circuit-nodeport-traffic comment "short-circuit local traffic"',
        'short-circuit-nodeport-traffic meta l4proto . th dport @short-circuit-nodeports-with-1 goto short-circuit-nodeport-with-1',
        'short-circuit-nodeport-traffic goto short-circuit-nodeport-endpoint-0',
        'short-circuit-nodeport-with-1 goto short-circuit-nodeport-endpoint-0',
        'short-circuit-nodeport-endpoint-0 dnat ip to meta l4proto . th dport map @short-circuit-nodeport-endpoint-0',
      ],
    },
    {
      name: 'F-056 a lookup per prefix length',
      use: { prefixLengths: new Set([32, 8, 25]) },
      chains: /^firewall/,
      rules: [
        'firewall-check ip daddr . meta l4proto . th dport @firewalled-services goto firewall',
        'firewall ip daddr . meta l4proto . th dport . ip saddr & 255.0.0.0 @allowed-sources-8 return',
        'firewall ip daddr . meta l4proto . th dport . ip saddr & 255.255.255.128 @allowed-sources-25 return',
        'firewall ip daddr . meta l4proto . th dport . ip saddr @allowed-sources-32 return',
        'firewall drop',
      ],
    },
    {
      name: 'F-063 node ports on certain addresses',
      settings: { nodePortAddresses: [ip('192.0.2.1')] },
      use: {},
      chains: /^(services|nodeport-endpoints-check) /,
      rules: [
        'services ip daddr . meta l4proto . th dport @services-with-endpoints goto service-traffic',
        'services ip daddr @nodeport-ips goto nodeports',
        'nodeport-endpoints-check ip daddr @nodeport-ips meta l4proto . th dport @dropped-nodeports drop',
        'nodeport-endpoints-check ip daddr @nodeport-ips meta l4proto . th dport @rejected-nodeports reject with icmp port-unreachable',
      ],
    },
    {
      name: 'F-053 frontends that refuse, by hook, with the semantics of iptables mode',
      settings: { semantics: 'iptables', nodePortAddresses: [ip('192.0.2.1')] },
      use: {},
      chains: /^(filter-(input|forward|output)|[a-z-]+-check) /,
      rules: [
        'service-endpoints-check ip daddr . meta l4proto . th dport @dropped-services drop',
        'service-endpoints-check ip daddr . meta l4proto . th dport @rejected-services reject with icmp port-unreachable',
        'nodeport-endpoints-check fib daddr type local meta l4proto . th dport @dropped-nodeports drop',
        'nodeport-endpoints-check fib daddr type local meta l4proto . th dport @rejected-nodeports reject with icmp port-unreachable',
        'external-endpoints-check ip daddr @cluster-ips return',
        'external-endpoints-check goto service-endpoints-check',
        'firewall-check ip daddr . meta l4proto . th dport @firewalled-services goto firewall',
        'filter-input ct state new jump nodeport-endpoints-check',
        'filter-input ct state new jump external-endpoints-check',
        'filter-forward ct state new ct status dnat jump hairpin-marking',
        'filter-forward ct state new jump service-endpoints-check',
        'filter-output ct state new ip daddr @cluster-ips jump service-endpoints-check',
      ],
    },
    {
      name: 'F-050 with the semantics of iptables mode',
      settings: { semantics: 'iptables' },
      use: {},
      chains: /^(hairpin-marking (ip saddr & 0\.0\.0\.15 |ip saddr & 240|meta)|masquerading|nat-postrouting)/,
      rules: [
        'masquerading meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random',
        `hairpin-marking ip saddr & 0.0.0.15 . ip daddr & 0.0.0.15 != { ${lastDigits.join(', ')} } return`,
        `hairpin-marking ip saddr & 240.0.0.0 . ip daddr & 240.0.0.0 != { ${firstDigits.join(', ')} } return`,
        'hairpin-marking meta mark set meta mark | 0x00004000',
        'nat-postrouting ct status dnat jump hairpin-marking',
        'nat-postrouting jump masquerading',
      ],
    },
    {
      name: 'F-064 node ports on loopback addresses',
      settings: { semantics: 'iptables', localhostNodePorts: true },
      use: {},
      chains: /goto nodeports/,
      rules: ['services fib daddr type local goto nodeports'],
    },
    {
      name: 'F-064 node ports on all local addresses without those',
      settings: { semantics: 'iptables' },
      use: {},
      chains: /goto nodeports/,
      rules: ['services fib daddr type local ip daddr != 127.0.0.0/8 goto nodeports'],
    },
    {
      name: 'numbers of endpoints above 16 share a rule for each bucket of 16 numbers, in ascending order',
      use: { services: use({ counts: [170, 1, 16, 33, 17, 32] }) },
      chains: /^(service-traffic|services-bucket-\d+) /,
      rules: [
        'service-traffic ip daddr . meta l4proto . th dport @masqueraded-services meta mark set meta mark | 0x00004000',
        'service-traffic ip daddr . meta l4proto . th dport @services-with-1 goto service-with-1',
        'service-traffic ip daddr . meta l4proto . th dport @services-with-16 goto service-with-16',
        'service-traffic ip daddr . meta l4proto . th dport @services-bucket-1 goto services-bucket-1',
        'service-traffic ip daddr . meta l4proto . th dport @services-bucket-2 goto services-bucket-2',
        'service-traffic ip daddr . meta l4proto . th dport @services-bucket-10 goto services-bucket-10',
        'service-traffic goto service-endpoint-0',
        'services-bucket-1 ip daddr . meta l4proto . th dport @services-with-17 goto service-with-17',
        'services-bucket-1 ip daddr . meta l4proto . th dport @services-with-32 goto service-with-32',
        'services-bucket-1 goto service-endpoint-0',
        'services-bucket-2 ip daddr . meta l4proto . th dport @services-with-33 goto service-with-33',
        'services-bucket-2 goto service-endpoint-0',
        'services-bucket-10 ip daddr . meta l4proto . th dport @services-with-170 goto service-with-170',
        'services-bucket-10 goto service-endpoint-0',
      ],
    },
  ]
  for (const { name, settings, use: used, chains, rules } of cases) {
    it(name, () => assert.deepEqual(rulesOf(makeNftSettings('ipv4', settings), used, chains), rules))
  }

  it('has no chain that refuses unused ports with the semantics of iptables mode', () => {
    const settings = makeNftSettings('ipv4', { semantics: 'iptables' })
    const lines = commands(settings, { services: use({ counts: [1] }) })
    const names = lines.flatMap((line) => /^add (?:set|map|chain) ip kube-proxy (\S+)/.exec(line)?.[1] ?? [])
    const others = ['service-cidrs', 'hairpin-connections', 'cluster-ips-check']
    assert.deepEqual(
      names.filter((name) => others.includes(name)),
      [],
    )
    assert.deepEqual(
      lines.filter((line) => / hook /.test(line)),
      [
        'add chain ip kube-proxy filter-prerouting-pre-dnat { type filter hook prerouting priority -110 ; policy accept ; }',
        'add chain ip kube-proxy filter-output-pre-dnat { type filter hook output priority -110 ; policy accept ; }',
        'add chain ip kube-proxy filter-input { type filter hook input priority -1 ; policy accept ; }',
        'add chain ip kube-proxy filter-forward { type filter hook forward priority -1 ; policy accept ; }',
        'add chain ip kube-proxy filter-output { type filter hook output priority -1 ; policy accept ; }',
        'add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -101 ; policy accept ; }',
        'add chain ip kube-proxy nat-output { type nat hook output priority -101 ; policy accept ; }',
        'add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority 99 ; policy accept ; }',
      ],
    )
  })

  it('uses the set that kube-proxy may delete only in chains that kube-proxy deletes or empties before', () => {
    const ofKubeProxy =
      /^(services|nodeport-endpoints-check|(filter|nat)-(prerouting|input|forward|output|postrouting)\S*) /
    const values = use({ counts: [1, 2], shortCircuitCounts: [1], ownLists: ['endpoints', 'shortCircuit'] })
    for (const semantics of ['nftables', 'iptables'] as const) {
      const settings = makeNftSettings('ipv4', { semantics, nodePortAddresses: [ip('192.0.2.1')] })
      const users = rulesOf(settings, { services: values, nodePorts: values }, /@nodeport-ips/)
      assert.ok(users.length > 0)
      assert.deepEqual(
        users.filter((rule) => !ofKubeProxy.test(rule)),
        [],
      )
    }
  })

  it('chooses one of more than 64 endpoints by blocks of 16, each endpoint equally likely', () => {
    const used = { services: use({ counts: [64, 66] }) }
    const rules = rulesOf(makeNftSettings(), used, /^service-(with|block)-/)
    assert.deepEqual(rules, [
      `service-with-64 numgen random mod 64 vmap { ${endpoints(0, 64)} }`,
      'service-with-64 goto service-endpoint-0',
      'service-with-66 numgen random mod 66 vmap { 0-15 : goto service-block-0, 16-31 : goto service-block-1, 32-47 : goto service-block-2, 48-63 : goto service-block-3, 64 : goto service-endpoint-64, 65 : goto service-endpoint-65 }',
      'service-with-66 goto service-endpoint-0',
      ...[0, 1, 2, 3].flatMap((block) => [
        `service-block-${block} numgen random mod 16 vmap { ${endpoints(16 * block, 16 * block + 16)} }`,
        `service-block-${block} goto service-endpoint-0`,
      ]),
    ])
  })

  it('looks up each map in one rule', () => {
    const rules = commands(makeNftSettings(), { services: use({ counts: [1, 3, 70] }) })
    const maps = rules.flatMap((rule) => /map @(\S+)/u.exec(rule)?.[1] ?? [])
    assert.equal(maps.length, 70)
    assert.equal(new Set(maps).size, 70)
  })

  it('is the same for the same values in any order', () => {
    const one = compileStructure(makeNftSettings(), { ...nothing, services: use({ counts: [3, 1, 200] }) })
    const other = compileStructure(makeNftSettings(), { ...nothing, services: use({ counts: [200, 3, 1] }) })
    assert.deepEqual(one, other)
  })

  it('grows with what is in use only', () => {
    // Per number: a set, a chain with two rules, the comparison; a map, its chain with two rules; per bucket: a set, a chain, its last rule,
    // the comparison; per block of 16: a chain with two rules.
    assert.equal(sizeFor(160) - sizeFor(80), 80 * (5 + 4) + 5 * 4 + 5 * 3)
  })

  it('has no name of another type that kube-proxy uses, and none that it would delete', () => {
    const everything = use({
      counts: [1, 2],
      shortCircuitCounts: [1],
      ownLists: ['endpoints', 'shortCircuit'],
    })
    const { sets, chains } = compileStructure(makeNftSettings('ipv4', { nodePortAddresses: [] }), {
      services: everything,
      nodePorts: everything,
      prefixLengths: new Set([8]),
    })
    const setNames = sets.map(({ set }) => set)
    const chainNames = chains.map(({ chain }) => chain.chain)
    assert.equal(new Set(setNames).size, setNames.length)
    assert.equal(new Set(chainNames).size, chainNames.length)
    const names = [...setNames, ...chainNames]
    const otherTypes = [
      'service-ips',
      'service-nodeports',
      'no-endpoint-services',
      'no-endpoint-nodeports',
      'firewall-ips',
    ]
    const foreign = names.filter(
      (name) => name.startsWith('affinity-') || name.includes('/') || otherTypes.includes(name),
    )
    assert.deepEqual(foreign, [])
  })
})

describe('the known structure of nftables mode', () => {
  it('compares the rules of a new structure once, not with each write', () => {
    const structure = compileStructure(makeNftSettings(), { ...nothing, services: use({ counts: [1, 2] }) })
    const state = new StructureState(schemaOf('ipv4'))
    state.wanted = structure
    const { early, first, last } = state.plan({ isForeign: false })
    state.confirm([...early, ...first, ...last])
    let comparisons = 0
    const chains = structure.chains.map(({ chain, rules }) => ({
      chain,
      rules: rules.map((rule) => ({
        ...rule,
        get expressions() {
          comparisons++
          return rule.expressions
        },
      })),
    }))
    state.wanted = { ...structure, chains }
    assert.ok(comparisons > 0)
    comparisons = 0
    assert.deepEqual(state.plan({ isForeign: false }), { early: [], first: [], last: [] })
    assert.equal(comparisons, 0)
  })

  // The comparison did not see the elements of anonymous maps.
  it('writes a chain whose map leads to other chains', () => {
    const structure = compileStructure(makeNftSettings(), { ...nothing, services: use({ counts: [80] }) })
    const state = new StructureState(schemaOf('ipv4'))
    state.wanted = structure
    const { early, first, last } = state.plan({ isForeign: false })
    state.confirm([...early, ...first, ...last])
    const others = structure.chains.find(({ chain }) => chain.chain === 'service-block-1')?.rules ?? []
    const chains = structure.chains.map(({ chain, rules }) => ({
      chain,
      rules: chain.chain === 'service-block-0' ? others.map((rule) => ({ ...rule, ...chain })) : rules,
    }))
    state.wanted = { ...structure, chains }
    assert.deepEqual(
      state.plan({ isForeign: false }).first.map(({ op }) => op),
      ['flush-chain', 'add-rule', 'add-rule'],
    )
  })

  it('makes the chains of a number once', () => {
    const before = new Set(chainsFor(20, 100))
    const added = chainsFor(20, 100, 101).filter((chain) => !before.has(chain))
    const named = added
      .map(({ chain }) => chain.chain)
      .filter((name) => /-(?:with|endpoint|block)-/u.test(name))
    assert.deepEqual(named, ['service-with-101', 'service-endpoint-100'])
  })
})
