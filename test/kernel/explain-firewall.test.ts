// The node's own firewall in `viaduct explain`: rules that the tools have made, in both flavours of x_tables and in nf_tables.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { FirewallChains, type Passage } from '../../src/inspect/index.js'
import { type FirewallFate, fateAt } from '../../src/inspect/testing.js'
import { openKernel, type XtFlavour } from '../../src/kernel/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { mustRun } from '../support/processes.js'
import { ip } from '../support/routes.js'

requireFreshNamespace()

/** A connection from outside to an endpoint, after the translation. */
const request: Passage = {
  hook: 'forward',
  source: ip('203.0.113.5'),
  destination: ip('10.244.1.10'),
  port: 8080,
  protocol: 'tcp',
  inInterface: 'eth0',
  isTranslated: true,
  isFromNode: false,
  ownChains: new Map([
    ['KUBE-FORWARD', true],
    ['KUBE-PROXY-FIREWALL', false],
  ]),
}

/** A connection of the node itself to an endpoint, after the translation of a VIP. */
const ownRequest: Partial<Passage> = {
  hook: 'output',
  source: ip('192.168.60.11'),
  inInterface: '',
  isFromNode: true,
  original: { destination: ip('10.96.0.10'), port: 80 },
}

/** A connection of the node itself to a VIP that IPVS takes. */
const ipvsRequest: Partial<Passage> = {
  hook: 'output',
  source: ip('192.168.60.11'),
  destination: ip('10.96.0.10'),
  port: 80,
  inInterface: '',
  isTranslated: false,
  isFromNode: true,
  leavesAt: -98,
}

/** The connection from outside as it comes in, to a VIP. */
const arrival: Partial<Passage> = {
  hook: 'prerouting',
  original: { destination: ip('10.96.0.10'), port: 80 },
}

interface Case {
  readonly name: string
  /** Arguments of iptables, or commands of nft. */
  readonly lines: readonly string[]
  readonly packet?: Partial<Passage>
  readonly state: FirewallFate['state']
  readonly by?: RegExp
}

const iptablesCases: readonly Case[] = [
  { name: 'no rule', lines: [], state: 'passes' },
  {
    name: 'a policy',
    lines: ['-P FORWARD DROP'],
    state: 'drops',
    by: /^the policy of chain FORWARD of table ip filter in (?:nf_tables|the legacy tables)$/u,
  },
  { name: 'a policy of another hook', lines: ['-P INPUT DROP'], state: 'passes' },
  {
    name: 'a source that is accepted',
    lines: ['-P FORWARD DROP', '-A FORWARD -s 203.0.113.0/24 -j ACCEPT'],
    state: 'passes',
  },
  {
    name: 'a source that is not accepted',
    lines: ['-P FORWARD DROP', '-A FORWARD ! -s 203.0.113.0/24 -j ACCEPT'],
    state: 'drops',
  },
  {
    name: 'the port of the endpoint',
    lines: ['-A FORWARD -d 10.244.1.10 -p tcp --dport 8080 -j DROP'],
    state: 'drops',
    by: /^rule 1 of chain FORWARD .* \(-d 10\.244\.1\.10\/32 -p tcp .*-j DROP\)$/u,
  },
  { name: 'another port', lines: ['-A FORWARD -p tcp --dport 80 -j DROP'], state: 'passes' },
  { name: 'another protocol', lines: ['-A FORWARD -p icmp -j DROP'], state: 'passes' },
  { name: 'all other protocols', lines: ['-A FORWARD ! -p udp -j REJECT'], state: 'rejects' },
  {
    name: 'new connections',
    lines: ['-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT', '-A FORWARD -j DROP'],
    state: 'drops',
    by: /^rule 2 /u,
  },
  {
    name: 'translated connections',
    lines: ['-P FORWARD DROP', '-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT'],
    state: 'passes',
  },
  {
    name: 'a connection that is not translated',
    lines: ['-P FORWARD DROP', '-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT'],
    packet: { isTranslated: false },
    state: 'drops',
  },
  {
    name: 'a match that cannot be evaluated',
    lines: ['-A FORWARD -m limit --limit 1/s -j DROP'],
    state: 'may-drop',
    by: /^rule 1 of chain FORWARD /u,
  },
  {
    name: 'an acceptance that cannot be evaluated',
    lines: ['-P FORWARD DROP', '-A FORWARD -m limit --limit 1/s -j ACCEPT'],
    state: 'may-drop',
    by: /^the policy of chain FORWARD /u,
  },
  {
    name: 'a match that cannot be evaluated beside one that fails',
    lines: ['-A FORWARD -p udp -m limit --limit 1/s -j DROP'],
    state: 'passes',
  },
  { name: 'a mark', lines: ['-A FORWARD -m mark --mark 0x10/0x10 -j DROP'], state: 'may-drop' },
  { name: 'a queue', lines: ['-A FORWARD -j NFQUEUE'], state: 'may-drop' },
  { name: 'a log', lines: ['-A FORWARD -j LOG'], state: 'passes' },
  { name: 'an interface', lines: ['-A FORWARD -i eth0 -j DROP'], state: 'drops' },
  { name: 'another interface', lines: ['-A FORWARD -i eth1 -j DROP'], state: 'passes' },
  { name: 'interfaces by a prefix', lines: ['-A FORWARD -i eth+ -j DROP'], state: 'drops' },
  {
    name: 'an interface that is not known',
    lines: ['-A FORWARD -i eth0 -j DROP'],
    packet: { inInterface: undefined },
    state: 'may-drop',
  },
  {
    name: 'a chain',
    lines: ['-N OTHER', '-A OTHER -p udp -j RETURN', '-A OTHER -j DROP', '-A FORWARD -j OTHER'],
    state: 'drops',
    by: /^rule 2 of chain OTHER /u,
  },
  {
    name: 'a return from a chain',
    lines: ['-N OTHER', '-A OTHER -p tcp -j RETURN', '-A OTHER -j DROP', '-A FORWARD -j OTHER'],
    state: 'passes',
  },
  {
    name: 'a return that cannot be evaluated',
    lines: ['-N OTHER', '-A OTHER -m limit --limit 1/s -j RETURN', '-A OTHER -j DROP', '-A FORWARD -j OTHER'],
    state: 'may-drop',
    by: /^rule 2 of chain OTHER /u,
  },
  {
    name: 'a chain that may be entered',
    lines: ['-N OTHER', '-A OTHER -j DROP', '-A FORWARD -m limit --limit 1/s -j OTHER'],
    state: 'may-drop',
  },
  {
    name: 'a drop for certain after one that may be',
    lines: ['-A FORWARD -m limit --limit 1/s -j DROP', '-A FORWARD -j DROP'],
    state: 'drops',
    by: /^rule 2 /u,
  },
  {
    name: 'a goto, after which the policy follows',
    lines: ['-N OTHER', '-A OTHER -p udp -j DROP', '-A FORWARD -g OTHER', '-A FORWARD -j DROP'],
    state: 'passes',
  },
  { name: 'table mangle', lines: ['-t mangle -A FORWARD -j DROP'], state: 'drops', by: / ip mangle /u },
  {
    name: 'the VIP of an own connection in table mangle',
    lines: ['-t mangle -A OUTPUT -d 10.96.0.10 -p tcp --dport 80 -j DROP'],
    packet: ownRequest,
    state: 'drops',
    by: / ip mangle /u,
  },
  {
    name: 'the endpoint of an own connection in table mangle',
    lines: ['-t mangle -A OUTPUT -d 10.244.1.10 -j DROP'],
    packet: ownRequest,
    state: 'passes',
  },
  {
    name: 'an own connection that table mangle sees before its translation',
    lines: ['-t mangle -A OUTPUT -m conntrack ! --ctstate DNAT -j DROP'],
    packet: ownRequest,
    state: 'drops',
  },
  {
    name: 'the VIP of an own connection in table raw',
    lines: ['-t raw -A OUTPUT -d 10.96.0.10 -j DROP'],
    packet: ownRequest,
    state: 'drops',
    by: / ip raw /u,
  },
  {
    name: 'a connection to IPVS in table mangle, which comes before IPVS',
    lines: ['-t mangle -A OUTPUT -d 10.96.0.10 -j DROP'],
    packet: ipvsRequest,
    state: 'drops',
  },
  {
    name: 'a connection to IPVS in table filter, which comes behind IPVS',
    lines: ['-A OUTPUT -d 10.96.0.10 -j DROP'],
    packet: ipvsRequest,
    state: 'passes',
  },
  {
    name: 'the VIP of an own connection in table filter',
    lines: ['-A OUTPUT -d 10.96.0.10 -j DROP'],
    packet: ownRequest,
    state: 'passes',
  },
  {
    name: 'the endpoint of an own connection in table filter',
    lines: ['-A OUTPUT -d 10.244.1.10 -p tcp --dport 8080 -j DROP'],
    packet: ownRequest,
    state: 'drops',
    by: / ip filter /u,
  },
  {
    name: 'the VIP of a connection that comes in, in table raw',
    lines: ['-t raw -A PREROUTING -d 10.96.0.10 -p tcp --dport 80 -j DROP'],
    packet: arrival,
    state: 'drops',
    by: /^rule 1 of chain PREROUTING of table ip raw /u,
  },
  {
    name: 'the endpoint of a connection that comes in, in table mangle',
    lines: ['-t mangle -A PREROUTING -d 10.244.1.10 -j DROP'],
    packet: arrival,
    state: 'passes',
  },
  {
    name: 'a destination of this node, which is not known before the kernel routes the packet',
    lines: ['-t mangle -A PREROUTING -m addrtype --dst-type LOCAL -j DROP'],
    packet: arrival,
    state: 'may-drop',
  },
  {
    name: "Viaduct's chain that accepts",
    lines: ['-N KUBE-FORWARD', '-A FORWARD -j KUBE-FORWARD', '-A FORWARD -j DROP'],
    state: 'passes',
  },
  {
    name: "Viaduct's chain that comes too late",
    lines: ['-N KUBE-FORWARD', '-A FORWARD -j DROP', '-A FORWARD -j KUBE-FORWARD'],
    state: 'drops',
  },
  {
    name: "Viaduct's chain that lets pass",
    lines: ['-N KUBE-PROXY-FIREWALL', '-A KUBE-PROXY-FIREWALL -j DROP', '-A FORWARD -j KUBE-PROXY-FIREWALL'],
    state: 'passes',
  },
]

const base = 'add chain inet fw forward { type filter hook forward priority 0; }'
const table = ['add table inet fw', base] as const

/** A table with a base chain that has the name of its hook. */
function ofHook(
  hook: 'prerouting' | 'input' | 'output',
  type: 'filter' | 'nat',
  priority: number,
): readonly string[] {
  return [
    'add table inet fw',
    `add chain inet fw ${hook} { type ${type} hook ${hook} priority ${priority}; }`,
  ]
}

function ofOutput(type: 'filter' | 'nat', priority: number): readonly string[] {
  return ofHook('output', type, priority)
}

const nftCases: readonly Case[] = [
  {
    name: 'a policy',
    lines: [
      'add table inet fw',
      'add chain inet fw any { type filter hook forward priority 5; policy drop; }',
    ],
    state: 'drops',
    by: /^the policy of chain any of table inet fw in nf_tables$/u,
  },
  {
    name: 'a table that is dormant',
    lines: [...table, 'add rule inet fw forward drop', 'add table inet fw { flags dormant; }'],
    state: 'passes',
  },
  {
    name: 'an acceptance of translated connections',
    lines: [...table, 'add rule inet fw forward ct status dnat accept', 'add rule inet fw forward drop'],
    state: 'passes',
  },
  {
    name: 'an acceptance of known connections',
    lines: [
      ...table,
      'add rule inet fw forward ct state established,related accept',
      'add rule inet fw forward counter drop',
    ],
    state: 'drops',
    by: /^rule 2 of chain forward of table inet fw in nf_tables /u,
  },
  {
    name: 'a source',
    lines: [...table, 'add rule inet fw forward ip saddr 203.0.113.0/24 drop'],
    state: 'drops',
  },
  {
    name: 'a source of the other family',
    lines: [...table, 'add rule inet fw forward ip6 saddr fd00::/8 drop'],
    state: 'passes',
  },
  { name: 'a port', lines: [...table, 'add rule inet fw forward tcp dport 8080 reject'], state: 'rejects' },
  { name: 'another port', lines: [...table, 'add rule inet fw forward tcp dport 80 drop'], state: 'passes' },
  {
    name: 'another protocol',
    lines: [...table, 'add rule inet fw forward udp dport 8080 drop'],
    state: 'passes',
  },
  {
    name: 'a set',
    lines: [...table, 'add rule inet fw forward tcp dport { 80, 8080 } drop'],
    state: 'may-drop',
  },
  {
    name: 'a map of verdicts',
    lines: [...table, 'add rule inet fw forward meta l4proto vmap { tcp : drop }'],
    state: 'may-drop',
  },
  {
    name: 'a limit',
    lines: [...table, 'add rule inet fw forward limit rate 1/second drop'],
    state: 'may-drop',
  },
  { name: 'a log', lines: [...table, 'add rule inet fw forward log'], state: 'passes' },
  {
    name: 'a chain for an interface',
    lines: [
      ...table,
      'add chain inet fw zone',
      'add rule inet fw zone drop',
      'add rule inet fw forward iifname "eth0" jump zone',
    ],
    state: 'drops',
    by: /^rule 1 of chain zone /u,
  },
  {
    name: 'the VIP of an own connection in a chain as early as the translation',
    lines: [...ofOutput('filter', -100), 'add rule inet fw output ip daddr 10.96.0.10 drop'],
    packet: ownRequest,
    state: 'drops',
    by: /^rule 1 of chain output of table inet fw in nf_tables /u,
  },
  {
    name: 'the endpoint of an own connection in a chain as early as the translation',
    lines: [...ofOutput('filter', -100), 'add rule inet fw output ip daddr 10.244.1.10 drop'],
    packet: ownRequest,
    state: 'passes',
  },
  {
    name: 'the VIP of an own connection in a chain behind the translation',
    lines: [...ofOutput('filter', -99), 'add rule inet fw output ip daddr 10.96.0.10 drop'],
    packet: ownRequest,
    state: 'passes',
  },
  {
    name: 'the endpoint of an own connection in a chain behind the translation',
    lines: [...ofOutput('filter', -99), 'add rule inet fw output ip daddr 10.244.1.10 drop'],
    packet: ownRequest,
    state: 'drops',
  },
  {
    name: 'the endpoint of a connection that comes in, in a chain behind the translation',
    lines: [...ofHook('prerouting', 'filter', -99), 'add rule inet fw prerouting ip daddr 10.244.1.10 drop'],
    packet: arrival,
    state: 'drops',
  },
  {
    name: 'a chain of type nat at prerouting behind the translation, which the kernel leaves out',
    lines: [...ofHook('prerouting', 'nat', -90), 'add rule inet fw prerouting drop'],
    packet: arrival,
    state: 'passes',
  },
  {
    name: 'an interface by which a connection that comes in would leave',
    lines: [...ofHook('prerouting', 'filter', -150), 'add rule inet fw prerouting oifname "eth0" drop'],
    packet: arrival,
    state: 'passes',
  },
  {
    name: 'a chain of type nat before the translation',
    lines: [...ofOutput('nat', -110), 'add rule inet fw output ip daddr 10.96.0.10 drop'],
    packet: ownRequest,
    state: 'drops',
  },
  {
    name: 'a chain of type nat behind the translation, which the kernel leaves out',
    lines: [...ofOutput('nat', -90), 'add rule inet fw output drop'],
    packet: ownRequest,
    state: 'passes',
  },
  {
    name: 'a chain of type nat, which the kernel runs before IPVS at any priority',
    lines: [...ofHook('output', 'nat', 0), 'add rule inet fw output drop'],
    packet: ipvsRequest,
    state: 'drops',
  },
  {
    name: 'a chain of type nat at input, which the kernel runs behind IPVS at any priority',
    lines: [...ofHook('input', 'nat', 0), 'add rule inet fw input drop'],
    packet: { hook: 'input', isTranslated: false, leavesAt: 99 },
    state: 'passes',
  },
  {
    name: 'a chain of type nat at input',
    lines: [...ofHook('input', 'nat', 0), 'add rule inet fw input drop'],
    packet: { hook: 'input' },
    state: 'drops',
  },
  {
    name: "a chain of type nat at input, which does not see the node's own packets",
    lines: [...ofHook('input', 'nat', 0), 'add rule inet fw input drop'],
    packet: { hook: 'input', source: ip('127.0.0.1'), inInterface: 'lo', isFromNode: true },
    state: 'passes',
  },
  {
    name: 'a chain of type nat that translates the packet, and so ends',
    lines: [
      ...ofOutput('nat', -90),
      'add rule inet fw output meta l4proto tcp redirect to :80',
      'add rule inet fw output drop',
    ],
    packet: { ...ownRequest, isTranslated: false },
    state: 'passes',
  },
  {
    name: 'a table that is left out',
    lines: [
      'add table ip kube-proxy',
      'add chain ip kube-proxy own { type filter hook forward priority 0; policy drop; }',
    ],
    state: 'passes',
  },
]

const kernel = openKernel()
after(async () => await kernel.close())

async function check({ packet, state, by = /^/u }: Case): Promise<void> {
  const chains = new FirewallChains(
    await kernel.firewall('ipv4', { isLeftOut: (name) => name === 'kube-proxy', hasLegacyNat: true }),
  )
  const fate = await fateAt({ ...request, ...packet }, chains)
  assert.equal(fate.state, state, fate.by)
  assert.match(fate.by, by)
}

async function empty(flavour: XtFlavour): Promise<void> {
  for (const chain of ['INPUT', 'FORWARD']) await mustRun([`iptables-${flavour}`, '-P', chain, 'ACCEPT'])
  for (const of of ['filter', 'mangle', 'raw'])
    for (const verb of ['-F', '-X']) await mustRun([`iptables-${flavour}`, '-t', of, verb])
}

for (const flavour of ['legacy', 'nft'] as const) {
  describe(`explain reads rules of iptables-${flavour}`, () => {
    before(async () => await mustRun(['nft', 'flush ruleset']))

    for (const one of iptablesCases) {
      it(one.name, async () => {
        await empty(flavour)
        for (const line of one.lines) await mustRun([`iptables-${flavour}`, ...line.split(' ')])
        await check(one)
        await empty(flavour)
      })
    }
  })
}

describe('explain reads rules of nft', () => {
  for (const one of nftCases) {
    it(one.name, async () => {
      await mustRun(['nft', 'flush ruleset'])
      for (const line of one.lines) await mustRun(['nft', line])
      await check(one)
    })
  }
})
