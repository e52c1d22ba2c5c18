// Rules of other programs that change the packet mark: a packet of policy Local may lose the mark of its Service.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { FirewallChains } from '../../src/inspect/index.js'
import { markAt, type MarkComparison, type MarkedPacket } from '../../src/inspect/testing.js'
import { openKernel } from '../../src/kernel/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { mustRun } from '../support/processes.js'
import { ip } from '../support/routes.js'

requireFreshNamespace()

const mark = 0x1001
const pod: MarkedPacket = {
  source: ip('10.244.1.11'),
  destination: ip('203.0.113.80'),
  port: 80,
  protocol: 'tcp',
  inInterface: 'pod0',
  isFromNode: false,
  mark,
  marks: { mask: 0x107f, masqueradeMark: 0x4000, chains: ['KUBE-IPVS-IN', 'KUBE-IPVS-OUT'] },
  ownChains: new Map([
    ['KUBE-IPVS-IN', false],
    ['KUBE-IPVS-OUT', false],
    ['KUBE-SERVICES', true],
  ]),
}
const ofNode: Partial<MarkedPacket> = { isFromNode: true, inInterface: '', source: ip('192.168.60.11') }

interface Case {
  readonly name: string
  /** Arguments of iptables, or commands of nft. Viaduct's own jumps in table mangle come before them. */
  readonly lines: readonly string[]
  readonly packet?: Partial<MarkedPacket>
  readonly state: MarkComparison['state']
  readonly by?: RegExp
}

const iptablesCases: readonly Case[] = [
  { name: 'no rule', lines: [], state: 'same' },
  { name: 'no rule for the node', lines: [], packet: ofNode, state: 'same' },
  {
    name: 'a bit before',
    lines: ['-t mangle -A PREROUTING -j MARK --or-mark 0x100000'],
    state: 'other',
    by: /^rule 1 of chain PREROUTING of table ip mangle in .*MARK/u,
  },
  {
    name: 'a bit before, which does not concern the node',
    lines: ['-t mangle -A PREROUTING -j MARK --or-mark 0x100000'],
    packet: ofNode,
    state: 'same',
  },
  {
    name: 'a bit before in table raw',
    lines: ['-t raw -A PREROUTING -j MARK --or-mark 0x100000'],
    state: 'other',
    by: / ip raw /u,
  },
  {
    name: 'a bit before in table nat',
    lines: ['-t nat -A PREROUTING -p tcp --dport 80 -j MARK --or-mark 0x100000'],
    state: 'other',
    by: / ip nat /u,
  },
  {
    name: 'a bit in table nat at INPUT, which is behind IPVS',
    lines: ['-t nat -A INPUT -j MARK --or-mark 0x100000'],
    state: 'same',
  },
  {
    name: 'a bit in table nat behind the acceptance of Services',
    lines: [
      '-t nat -N KUBE-SERVICES',
      '-t nat -A PREROUTING -j KUBE-SERVICES',
      '-t nat -A PREROUTING -j MARK --or-mark 0x100000',
    ],
    state: 'same',
  },
  { name: 'a bit of ours before', lines: ['-t mangle -A PREROUTING -j MARK --or-mark 0x2'], state: 'same' },
  {
    name: 'the bit for masquerading',
    lines: ['-t mangle -A PREROUTING -j MARK --or-mark 0x4000'],
    state: 'same',
  },
  {
    name: 'a bit behind',
    lines: ['-A INPUT -j MARK --or-mark 0x100000'],
    state: 'other',
    by: / ip filter /u,
  },
  { name: 'a bit of ours behind', lines: ['-A INPUT -j MARK --or-mark 0x2'], state: 'other' },
  { name: 'the same bits behind', lines: ['-A INPUT -j MARK --or-mark 0x1000'], state: 'same' },
  {
    name: 'a bit that goes again',
    lines: [
      '-t mangle -A PREROUTING -j MARK --or-mark 0x100000',
      '-A INPUT -j MARK --set-xmark 0x0/0x100000',
    ],
    state: 'same',
  },
  {
    name: 'a bit for other packets',
    lines: ['-t mangle -A PREROUTING -p udp -j MARK --or-mark 0x100000'],
    state: 'same',
  },
  {
    name: 'a bit that cannot be evaluated',
    lines: ['-t mangle -A PREROUTING -m limit --limit 1/s -j MARK --or-mark 0x100000'],
    state: 'unknown',
    by: /^rule 1 of chain PREROUTING /u,
  },
  {
    name: 'a bit behind an acceptance that cannot be evaluated',
    lines: [
      '-t mangle -A PREROUTING -m limit --limit 1/s -j ACCEPT',
      '-t mangle -A PREROUTING -j MARK --or-mark 0x100000',
    ],
    state: 'unknown',
  },
  {
    name: 'a mark of the connection',
    lines: ['-t mangle -A PREROUTING -j CONNMARK --restore-mark'],
    state: 'unknown',
    by: /CONNMARK/u,
  },
  {
    name: 'the bit for masquerading from the mark of the connection',
    lines: ['-t mangle -A INPUT -j CONNMARK --restore-mark --mask 0x4000'],
    state: 'same',
  },
  {
    name: 'a mark from a hash',
    lines: ['-t mangle -A INPUT -j HMARK --hmark-tuple src --hmark-mod 10 --hmark-offset 100 --hmark-rnd 1'],
    state: 'unknown',
    by: /HMARK/u,
  },
  {
    name: 'a mark from a socket',
    lines: ['-t mangle -A INPUT -m socket --restore-skmark'],
    state: 'unknown',
    by: /socket/u,
  },
  { name: 'a socket', lines: ['-t mangle -A INPUT -m socket --transparent'], state: 'same' },
  {
    name: 'a mark for the connection',
    lines: ['-t mangle -A PREROUTING -j CONNMARK --save-mark'],
    state: 'same',
  },
  {
    name: 'a chain',
    lines: [
      '-t mangle -N OTHER',
      '-t mangle -A OTHER -j MARK --or-mark 0x100000',
      '-t mangle -A PREROUTING -j OTHER',
    ],
    state: 'other',
    by: /^rule 1 of chain OTHER /u,
  },
  {
    name: 'an acceptance before ours',
    lines: ['-t mangle -I INPUT -j ACCEPT'],
    state: 'other',
  },
  {
    name: "a bit for the node's own",
    lines: ['-t mangle -A OUTPUT -j MARK --or-mark 0x100000'],
    packet: ofNode,
    state: 'other',
    by: /chain OUTPUT /u,
  },
  {
    name: "a bit for the node's own behind IPVS",
    lines: ['-A OUTPUT -j MARK --or-mark 0x100000'],
    packet: ofNode,
    state: 'same',
  },
]

const inputOf = (priority: number): readonly string[] => [
  'add table inet fw',
  `add chain inet fw input { type filter hook input priority ${priority}; }`,
]
const nftCases: readonly Case[] = [
  {
    name: 'a bit that is added',
    lines: [...inputOf(0), 'add rule inet fw input meta mark set meta mark or 0x100000'],
    state: 'other',
    by: /^rule 1 of chain input of table inet fw in nf_tables /u,
  },
  { name: 'a mark', lines: [...inputOf(0), 'add rule inet fw input meta mark set 0x7'], state: 'other' },
  {
    name: 'the same mark',
    lines: [...inputOf(0), `add rule inet fw input meta mark set ${mark}`],
    state: 'same',
  },
  {
    name: 'a mark from the connection',
    lines: [...inputOf(0), 'add rule inet fw input meta mark set ct mark'],
    state: 'unknown',
  },
  {
    name: 'two marks in one rule, of which the last one sets no bit',
    lines: [
      ...inputOf(0),
      'add rule inet fw input meta mark set meta mark or 0x100000 meta mark set meta mark and 0xffffffff',
    ],
    state: 'unknown',
  },
  {
    name: 'a mark behind IPVS',
    lines: [...inputOf(110), 'add rule inet fw input meta mark set 0x7'],
    state: 'same',
  },
  {
    name: 'a mark before ours',
    lines: [...inputOf(-200), 'add rule inet fw input meta mark set 0x7'],
    state: 'same',
  },
  {
    name: 'a mark for other packets',
    lines: [...inputOf(0), 'add rule inet fw input udp dport 53 meta mark set 0x7'],
    state: 'same',
  },
  {
    name: 'a mark in a chain of type nat, which is before IPVS at any priority',
    lines: [
      'add table inet fw',
      'add chain inet fw output { type nat hook output priority 0; }',
      'add rule inet fw output meta mark set 0x7',
    ],
    packet: ofNode,
    state: 'other',
  },
  {
    name: 'a bit that a chain of type nat takes away again, although its priority comes first',
    lines: [
      'add table inet fw',
      'add chain inet fw first { type filter hook prerouting priority -180; }',
      'add rule inet fw first meta mark set 0x100000',
      'add chain inet fw last { type nat hook prerouting priority -190; }',
      'add rule inet fw last meta mark set 0',
    ],
    state: 'same',
  },
]

const kernel = openKernel()
after(async () => await kernel.close())

async function check({ packet, state, by = /^/u }: Case): Promise<void> {
  const chains = new FirewallChains(
    await kernel.firewall('ipv4', { isLeftOut: () => false, hasLegacyNat: true }),
  )
  const reader = {
    read: async () => await Promise.resolve(chains),
    pause: async () => await Promise.resolve(),
  }
  const answer = await markAt({ ...pod, ...packet }, reader)
  assert.equal(answer.state, state, answer.by)
  assert.match(answer.by ?? '', by)
}

for (const flavour of ['legacy', 'nft'] as const) {
  const tool = `iptables-${flavour}`
  const empty = async (): Promise<void> => {
    for (const table of ['filter', 'mangle', 'nat', 'raw'])
      for (const verb of ['-F', '-X']) await mustRun([tool, '-t', table, verb])
  }
  const addOwn = async (): Promise<void> => {
    for (const [hook, chain] of [
      ['INPUT', 'KUBE-IPVS-IN'],
      ['OUTPUT', 'KUBE-IPVS-OUT'],
    ] as const) {
      await mustRun([tool, '-t', 'mangle', '-N', chain])
      await mustRun([tool, '-t', 'mangle', '-A', hook, '-j', chain])
    }
  }
  describe(`explain follows the packet mark through rules of ${tool}`, () => {
    before(async () => await mustRun(['nft', 'flush ruleset']))
    after(empty)
    for (const one of iptablesCases) {
      it(one.name, async () => {
        await empty()
        await addOwn()
        for (const line of one.lines) await mustRun([tool, ...line.split(' ')])
        await check(one)
      })
    }
    if (flavour === 'nft') return
    for (const one of nftCases) {
      it(`nft: ${one.name}`, async () => {
        await empty()
        await addOwn()
        await mustRun(['nft', 'flush ruleset'])
        for (const line of one.lines) await mustRun(['nft', line])
        await check(one)
        await mustRun(['nft', 'flush ruleset'])
      })
    }
  })
}
