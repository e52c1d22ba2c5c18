// The kernel takes the whole table of nftables mode, shows each set and rule as it was sent, and nft lists it. Adoption at a
// restart depends on the former, operators on the latter.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { isSameRule, type Nftables, printTransaction } from '../../src/kernel/index.js'
import { isSameSet } from '../../src/kernel/testing.js'
import { type NftModeSettings } from '../../src/layers/nft-table/index.js'
import { compileStructure, type OwnList, type StructureUse } from '../../src/layers/nft-table/testing.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { makeNftSettings, structureOps, tableOps } from '../support/nft-table.js'
import { mustRun } from '../support/processes.js'
import { backends, cidr, ip, plainRoute } from '../support/routes.js'

requireFreshNamespace()

function upTo(count: number): ReadonlySet<number> {
  return new Set(Array.from({ length: count }, (_, index) => index + 1))
}

function everything(prefixLengths: readonly number[]): StructureUse {
  const use = {
    counts: upTo(80),
    shortCircuitCounts: new Set([1, 3, 256]),
    ownLists: new Set<OwnList>(['endpoints', 'shortCircuit']),
  }
  return { services: use, nodePorts: use, prefixLengths: new Set(prefixLengths) }
}

const nothing: StructureUse = {
  services: { counts: new Set(), shortCircuitCounts: new Set(), ownLists: new Set<OwnList>() },
  nodePorts: { counts: new Set(), shortCircuitCounts: new Set(), ownLists: new Set<OwnList>() },
  prefixLengths: new Set(),
}

const cases: readonly {
  readonly name: string
  readonly settings: NftModeSettings
  readonly use: StructureUse
}[] = [
  { name: 'nothing in use', settings: makeNftSettings('ipv4'), use: nothing },
  { name: 'nothing in use, IPv6', settings: makeNftSettings('ipv6'), use: nothing },
  {
    name: 'everything in use, node ports on all addresses, pods by their network',
    settings: makeNftSettings('ipv4', {
      localDetector: { kind: 'cidr', cidr: cidr('10.244.16.0/20') },
      masqueradeMark: 2 ** 31,
    }),
    use: everything([1, 9, 24, 32]),
  },
  {
    name: 'everything in use, node ports on one address, pods by a prefix of interface names',
    settings: makeNftSettings('ipv4', {
      localDetector: { kind: 'interface', name: 'cali+' },
      nodePortAddresses: [ip('192.0.2.1')],
    }),
    use: everything([8]),
  },
  {
    name: 'everything in use, IPv6, pods by a bridge',
    settings: makeNftSettings('ipv6', { localDetector: { kind: 'interface', name: 'cbr0' } }),
    use: everything([1, 61, 64, 128]),
  },
  {
    name: 'everything in use, IPv6, node ports on one address, all masqueraded',
    settings: makeNftSettings('ipv6', {
      localDetector: { kind: 'cidr', cidr: cidr('fd00:10:244::/60') },
      nodePortAddresses: [ip('2001:db8::1')],
      masqueradeAll: true,
    }),
    use: everything([56]),
  },
]

describe('the table of nftables mode', () => {
  let nftables: Nftables
  before(() => (nftables = openRealKernel().nftables))
  after(() => nftables.close())

  for (const { name, settings, use } of cases) {
    it(`is shown as it was sent, and listed by nft: ${name}`, async () => {
      await mustRun(['nft', 'flush', 'ruleset'])
      const structure = compileStructure(settings, use)
      const { table, sets, chains } = structure
      assert.deepEqual((await nftables.apply(structureOps(structure))).failures, [])
      const foundSets = new Map((await nftables.sets(table)).map((found) => [found.set, found.attributes]))
      for (const set of sets) {
        const found = foundSets.get(set.set)
        assert.ok(found !== undefined && isSameSet(set, found), `${set.set}: ${JSON.stringify(found)}`)
      }
      const named = [...foundSets.keys()].filter((set) => !set.startsWith('__'))
      assert.equal(named.length, sets.length)
      const foundChains = await nftables.chains(table)
      assert.deepEqual(
        foundChains.map(({ chain }) => chain).toSorted(),
        chains.map(({ chain }) => chain.chain).toSorted(),
      )
      for (const { chain, rules } of chains) {
        const found = await nftables.rules(chain)
        assert.equal(found.length, rules.length, chain.chain)
        for (const [index, rule] of rules.entries()) {
          const other = found[index]
          assert.ok(
            other !== undefined && isSameRule(rule, other),
            printTransaction([{ op: 'add-rule', rule }], sets),
          )
        }
      }
      const listing = await mustRun(['nft', 'list', 'ruleset'])
      for (const { chain } of chains) assert.ok(listing.includes(`\tchain ${chain.chain} {`), chain.chain)
    })
  }

  it('is listed by nft in words that an operator can read', async () => {
    await mustRun(['nft', 'flush', 'ruleset'])
    const routes = [
      plainRoute({
        clusterBackends: backends(8080, '10.244.1.5', '10.244.2.6'),
        nodePort: 30080,
        isExternallyAccessible: true,
      }),
    ]
    const settings = makeNftSettings('ipv4', { localDetector: { kind: 'cidr', cidr: cidr('10.244.1.0/24') } })
    assert.deepEqual((await nftables.apply(tableOps(settings, routes))).failures, [])
    const listing = await mustRun(['nft', 'list', 'ruleset'])
    assert.equal(withoutSetComments(listing).trimEnd(), smallExample)
  })
})

function withoutSetComments(listing: string): string {
  return listing.replaceAll(/^\t\tcomment .*\n/gm, '')
}

const smallExample = `table ip kube-proxy {
	comment "rules for Services"
	set cluster-ips {
		type ipv4_addr
		elements = { 10.96.0.1 }
	}

	set service-cidrs {
		type ipv4_addr
		flags interval
	}

	set hairpin-connections {
		type ipv4_addr . ipv4_addr . inet_proto . inet_service
	}

	set services-with-endpoints {
		type ipv4_addr . inet_proto . inet_service
		elements = { 10.96.0.1 . tcp . 80 }
	}

	set services-with-2 {
		type ipv4_addr . inet_proto . inet_service
		elements = { 10.96.0.1 . tcp . 80 }
	}

	map service-endpoint-0 {
		type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service
		elements = { 10.96.0.1 . tcp . 80 : 10.244.1.5 . 8080 }
	}

	map service-endpoint-1 {
		type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service
		elements = { 10.96.0.1 . tcp . 80 : 10.244.2.6 . 8080 }
	}

	set short-circuit-services-with-endpoints {
		type ipv4_addr . inet_proto . inet_service
	}

	set masqueraded-services {
		type ipv4_addr . inet_proto . inet_service
	}

	set rejected-services {
		type ipv4_addr . inet_proto . inet_service
	}

	set dropped-services {
		type ipv4_addr . inet_proto . inet_service
	}

	set nodeports-with-endpoints {
		type inet_proto . inet_service
		elements = { tcp . 30080 }
	}

	set nodeports-with-2 {
		type inet_proto . inet_service
		elements = { tcp . 30080 }
	}

	map nodeport-endpoint-0 {
		type inet_proto . inet_service : ipv4_addr . inet_service
		elements = { tcp . 30080 : 10.244.1.5 . 8080 }
	}

	map nodeport-endpoint-1 {
		type inet_proto . inet_service : ipv4_addr . inet_service
		elements = { tcp . 30080 : 10.244.2.6 . 8080 }
	}

	set short-circuit-nodeports-with-endpoints {
		type inet_proto . inet_service
	}

	set masqueraded-nodeports {
		type inet_proto . inet_service
		elements = { tcp . 30080 }
	}

	set rejected-nodeports {
		type inet_proto . inet_service
	}

	set dropped-nodeports {
		type inet_proto . inet_service
	}

	set firewalled-services {
		type ipv4_addr . inet_proto . inet_service
	}

	chain services {
		ip daddr . meta l4proto . th dport @services-with-endpoints goto service-traffic
		fib daddr type local ip daddr != 127.0.0.0/8 goto nodeports
	}

	chain service-traffic {
		ip daddr @cluster-ips ip saddr != 10.244.1.0/24 meta mark set meta mark | 0x00004000 comment "masquerade clusterIP traffic from outside cluster"
		ip daddr . meta l4proto . th dport @masqueraded-services meta mark set meta mark | 0x00004000
		ip daddr . meta l4proto . th dport @services-with-2 goto service-with-2
		goto service-endpoint-0
	}

	chain service-with-2 {
		numgen random mod 2 vmap { 0 : goto service-endpoint-0, 1 : goto service-endpoint-1 }
		goto service-endpoint-0
	}

	chain service-endpoint-0 {
		dnat ip to ip daddr . meta l4proto . th dport map @service-endpoint-0
	}

	chain service-endpoint-1 {
		dnat ip to ip daddr . meta l4proto . th dport map @service-endpoint-1
		goto service-endpoint-0
	}

	chain nodeports {
		meta l4proto . th dport @nodeports-with-endpoints goto nodeport-traffic
	}

	chain nodeport-traffic {
		meta l4proto . th dport @masqueraded-nodeports meta mark set meta mark | 0x00004000
		meta l4proto . th dport @nodeports-with-2 goto nodeport-with-2
		goto nodeport-endpoint-0
	}

	chain nodeport-with-2 {
		numgen random mod 2 vmap { 0 : goto nodeport-endpoint-0, 1 : goto nodeport-endpoint-1 }
		goto nodeport-endpoint-0
	}

	chain nodeport-endpoint-0 {
		dnat ip to meta l4proto . th dport map @nodeport-endpoint-0
	}

	chain nodeport-endpoint-1 {
		dnat ip to meta l4proto . th dport map @nodeport-endpoint-1
		goto nodeport-endpoint-0
	}

	chain masquerading {
		meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random
		ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
	}

	chain service-endpoints-check {
		ip daddr . meta l4proto . th dport @dropped-services drop
		ip daddr . meta l4proto . th dport @rejected-services reject
	}

	chain nodeport-endpoints-check {
		ip daddr != 127.0.0.0/8 meta l4proto . th dport @dropped-nodeports drop
		ip daddr != 127.0.0.0/8 meta l4proto . th dport @rejected-nodeports reject
	}

	chain cluster-ips-check {
		ip daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"
		ip daddr @service-cidrs drop comment "Drop traffic to unallocated ClusterIPs"
	}

	chain firewall-check {
		ip daddr . meta l4proto . th dport @firewalled-services goto firewall
	}

	chain firewall {
		drop
	}

	chain filter-prerouting-pre-dnat {
		type filter hook prerouting priority dstnat - 10; policy accept;
		ct state new jump firewall-check
	}

	chain filter-output-pre-dnat {
		type filter hook output priority -110; policy accept;
		ct state new jump firewall-check
	}

	chain filter-input {
		type filter hook input priority filter - 1; policy accept;
		ct state new jump nodeport-endpoints-check
		ct state new jump service-endpoints-check
	}

	chain filter-forward {
		type filter hook forward priority filter - 1; policy accept;
		ct state new jump service-endpoints-check
		ct state new jump cluster-ips-check
	}

	chain filter-output {
		type filter hook output priority filter - 1; policy accept;
		ct state new jump service-endpoints-check
		ct state new jump cluster-ips-check
	}

	chain nat-prerouting {
		type nat hook prerouting priority dstnat - 1; policy accept;
		jump services
	}

	chain nat-output {
		type nat hook output priority -101; policy accept;
		jump services
	}

	chain nat-postrouting {
		type nat hook postrouting priority srcnat - 1; policy accept;
		jump masquerading
	}
}`
