// Rules of other programs in `viaduct explain`: the answers about the mark and the firewall, for a Service of policy Local in ipvs mode.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { KernelError } from '../../src/errors.js'
import { type Explanation, FirewallChains } from '../../src/inspect/index.js'
import {
  type ChainReader,
  explainPacket,
  type Packet,
  type PacketView,
  withOtherRules,
} from '../../src/inspect/testing.js'
import { openKernel } from '../../src/kernel/index.js'
import { withOwners } from '../support/frontend-owners.js'
import { trackFamily } from '../support/tracked-family.js'
import { packetRules } from '../../src/modes/ipvs/testing.js'
import { NodeTracker } from '../../src/node/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { endpoint, node as nodeObject, port, service, set, slice } from '../support/objects.js'
import { mustRun } from '../support/processes.js'
import { cidr, ip } from '../support/routes.js'

requireFreshNamespace()

const nodeIP = ip('192.168.60.11')
const here = '10.244.1.10:8080'
const elsewhere = '10.244.2.10:8080'
const both = [here, elsewhere] as const

const services = trackFamily('ipv4', () => undefined, { allowsExternalIPs: true })
const policyLocal = {
  type: 'NodePort',
  externalTrafficPolicy: 'Local',
  externalIPs: ['203.0.113.80'],
  ports: [port(80, { nodePort: 30_080 })],
} as const
services.apply(set(service('web', '10.96.0.10', policyLocal)))
const endpoints = [
  endpoint('10.244.1.10', { nodeName: 'node-a' }),
  endpoint('10.244.2.10', { nodeName: 'node-b' }),
]
services.apply(set(slice('web-1', 'web', endpoints)))
const node = new NodeTracker('node-a')
node.apply(set(nodeObject('node-a', { ips: [nodeIP] })))

/** The view of an agent that gave the Service this mark. */
function viewWith(mark: ReturnType<NonNullable<PacketView['rules']['marks']>['of']>): PacketView {
  const rules = packetRules({
    nodePortAddresses: [nodeIP],
    nodeIP,
    localDetector: { kind: 'cidr', cidr: cidr('10.244.1.0/24') },
    masqueradeAll: false,
    relayedLoopback: ip('127.0.0.1'),
    marks: { mask: 0x107f, masqueradeMark: 0x4000, of: () => mark },
  })
  return withOwners({ services, node: node.facts, rules, machine: [ip('127.0.0.1'), nodeIP] })
}

const outside = ip('192.0.2.10')
const atVip = { destination: ip('203.0.113.80'), port: 80 } as const
const atLoopback = { destination: ip('127.0.0.1'), port: 30_080 } as const

interface Case {
  readonly name: string
  readonly lines: readonly string[]
  readonly to: Pick<Packet, 'destination' | 'port'>
  /** Absent: the node itself. */
  readonly client?: Packet['client']
  readonly mark?: Parameters<typeof viewWith>[0]
  readonly verdict?: Explanation['verdict']
  readonly candidates: readonly string[]
  /** Whether the endpoints see this node. Absent: it does not matter. */
  readonly isMasqueraded?: boolean
  readonly states: readonly [mark: Explanation['mark']['state'], firewall: Explanation['firewall']['state']]
}

const cases: readonly Case[] = [
  { name: 'no rule', lines: [], to: atVip, candidates: both, states: ['keeps', 'passes'] },
  {
    name: 'a bit',
    lines: ['-t mangle -A OUTPUT -j MARK --or-mark 0x100000'],
    to: atVip,
    candidates: [here],
    states: ['loses', 'passes'],
  },
  {
    name: 'a bit that cannot be evaluated',
    lines: ['-t mangle -A OUTPUT -m limit --limit 1/s -j MARK --or-mark 0x100000'],
    to: atVip,
    candidates: both,
    states: ['may-lose', 'passes'],
  },
  {
    name: 'a bit, and a Service without a mark, as all are taken',
    lines: ['-t mangle -A OUTPUT -j MARK --or-mark 0x100000'],
    to: atVip,
    mark: 'all-taken',
    candidates: [here],
    states: ['loses', 'passes'],
  },
  {
    name: 'a bit, and a Service that is not compiled yet',
    lines: ['-t mangle -A OUTPUT -j MARK --or-mark 0x100000'],
    to: atVip,
    mark: undefined,
    candidates: both,
    states: ['not-asked', 'passes'],
  },
  {
    name: 'a bit on the way to the relay, which no mark leads',
    lines: ['-t mangle -A OUTPUT -j MARK --or-mark 0x100000'],
    to: atLoopback,
    candidates: both,
    states: ['not-asked', 'passes'],
  },
  {
    name: 'a drop at INPUT on the way to the relay',
    lines: ['-A INPUT -d 127.0.0.1 -p tcp --dport 30080 -j DROP'],
    to: atLoopback,
    candidates: both,
    states: ['not-asked', 'drops'],
  },
  {
    name: 'a drop at PREROUTING of a client outside',
    lines: ['-t raw -A PREROUTING -p tcp --dport 80 -j DROP'],
    client: outside,
    to: atVip,
    verdict: 'drop',
    candidates: [here],
    states: ['not-asked', 'drops'],
  },
  {
    name: 'a drop at PREROUTING, which the node itself does not meet',
    lines: ['-t raw -A PREROUTING -p tcp --dport 80 -j DROP'],
    to: atVip,
    verdict: 'serve',
    candidates: both,
    states: ['keeps', 'passes'],
  },
  {
    name: 'a drop at PREROUTING of a packet that would be refused',
    lines: ['-t raw -A PREROUTING -p tcp --dport 81 -j DROP'],
    client: outside,
    to: { ...atVip, port: 81 },
    verdict: 'drop',
    candidates: [],
    states: ['not-asked', 'drops'],
  },
  {
    name: 'a drop at INPUT behind the refusal',
    lines: ['-A INPUT -p tcp --dport 81 -j DROP'],
    client: outside,
    to: { ...atVip, port: 81 },
    verdict: 'refuse',
    candidates: [],
    states: ['not-asked', 'passes'],
  },
  {
    name: 'a packet without a rule, which is masqueraded',
    lines: [],
    to: atVip,
    candidates: both,
    isMasqueraded: true,
    states: ['keeps', 'passes'],
  },
  {
    name: 'NOTRACK: IPVS serves the packet, which table nat does not masquerade',
    lines: ['-t raw -A OUTPUT -p tcp --dport 80 -j NOTRACK'],
    to: atVip,
    verdict: 'serve',
    candidates: both,
    isMasqueraded: false,
    states: ['keeps', 'bypasses'],
  },
  {
    name: 'NOTRACK that cannot be evaluated',
    lines: ['-t raw -A OUTPUT -m limit --limit 1/s -j NOTRACK'],
    to: atVip,
    verdict: 'serve',
    candidates: both,
    isMasqueraded: true,
    states: ['keeps', 'may-bypass'],
  },
  {
    name: 'NOTRACK of a client that is not masqueraded',
    lines: ['-t raw -A PREROUTING -p tcp --dport 80 -j NOTRACK'],
    client: outside,
    to: atVip,
    verdict: 'serve',
    candidates: [here],
    isMasqueraded: false,
    states: ['not-asked', 'passes'],
  },
  {
    name: 'NOTRACK on the way to the relay, which has sockets',
    lines: ['-t raw -A OUTPUT -p tcp --dport 30080 -j NOTRACK'],
    to: atLoopback,
    verdict: 'serve',
    candidates: both,
    isMasqueraded: true,
    states: ['not-asked', 'passes'],
  },
  {
    name: 'an ACCEPT in table nat before KUBE-SERVICES: table mangle has marked the packet for masquerading',
    lines: ['-t nat -I OUTPUT -p tcp --dport 80 -j ACCEPT'],
    to: atVip,
    verdict: 'serve',
    candidates: both,
    isMasqueraded: true,
    states: ['keeps', 'passes'],
  },
  {
    name: 'an ACCEPT in table nat behind them',
    lines: ['-t nat -A OUTPUT -p tcp --dport 80 -j ACCEPT'],
    to: atVip,
    verdict: 'serve',
    candidates: both,
    isMasqueraded: true,
    states: ['keeps', 'passes'],
  },
  {
    name: 'another destination, before the rules that accept',
    lines: ['-t nat -I OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 81'],
    to: atVip,
    verdict: 'untouched',
    candidates: [],
    states: ['keeps', 'bypasses'],
  },
  {
    name: 'another destination, behind the rules that accept',
    lines: ['-t nat -A OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 81'],
    to: atVip,
    verdict: 'serve',
    candidates: both,
    states: ['keeps', 'passes'],
  },
  {
    name: 'a drop at hook postrouting',
    lines: ['-t mangle -A POSTROUTING -d 10.244.0.0/16 -j DROP'],
    to: atVip,
    verdict: 'drop',
    candidates: both,
    states: ['keeps', 'drops'],
  },
]

const kernel = openKernel()
after(async () => await kernel.close())

async function empty(): Promise<void> {
  for (const table of ['filter', 'mangle', 'raw', 'nat'])
    for (const verb of ['-F', '-X']) await mustRun(['iptables-legacy', '-t', table, verb])
}

/** The chains that see the node's own packets, as the mode makes them. */
async function addOwn(): Promise<void> {
  for (const [table, chain] of [
    ['mangle', 'KUBE-IPVS-OUT'],
    ['nat', 'KUBE-SERVICES'],
  ] as const) {
    await mustRun(['iptables-legacy', '-t', table, '-N', chain])
    await mustRun(['iptables-legacy', '-t', table, '-A', 'OUTPUT', '-j', chain])
  }
}

/** `isGone`: tells whether a chain vanished before its rules were read. */
function readerOf(isGone: (chain: string) => boolean = () => false): ChainReader {
  return {
    read: async () => {
      const chains = await kernel.firewall('ipv4', { isLeftOut: () => false, hasLegacyNat: true })
      const gone = new KernelError({ subsystem: 'nftables', operation: 'list-rules', errno: 2 })
      const rules = async (): Promise<never> => await Promise.reject(gone)
      return new FirewallChains(chains.map((chain) => (isGone(chain.chain) ? { ...chain, rules } : chain)))
    },
    pause: async () => await Promise.resolve(),
  }
}

async function explain(
  { to, client = 'node', ...given }: Pick<Case, 'to' | 'client' | 'mark'>,
  reader: ChainReader,
): ReturnType<typeof withOtherRules> {
  const packet: Packet = { client, inInterface: undefined, protocol: 'tcp', ...to }
  const view = viewWith('mark' in given ? given.mark : 0x1001)
  return await withOtherRules(packet, view, explainPacket(packet, view), reader)
}

type Answer = Awaited<ReturnType<typeof explain>>

function candidatesOf({ endpoints: all }: Pick<Answer, 'endpoints'>): readonly string[] {
  return all.filter(({ isCandidate }) => isCandidate).map(({ endpoint: address }) => address)
}

describe('explain answers about the mark and the firewall in ipvs mode', () => {
  before(async () => await mustRun(['nft', 'flush ruleset']))
  beforeEach(async () => {
    await empty()
    await addOwn()
  })
  after(empty)

  for (const one of cases) {
    it(one.name, async () => {
      for (const line of one.lines) await mustRun(['iptables-legacy', ...line.split(' ')])
      const answer = await explain(one, readerOf())
      assert.deepEqual([answer.mark.state, answer.firewall.state], one.states, answer.steps.at(-1)?.text)
      assert.deepEqual(candidatesOf(answer), one.candidates)
      if (one.isMasqueraded !== undefined)
        assert.ok(
          answer.endpoints.every((each) => !each.isCandidate || each.isMasqueraded === one.isMasqueraded),
        )
      if (one.verdict !== undefined) assert.equal(answer.verdict, one.verdict)
    })
  }

  it('a chain that vanishes behind the marks: the lost mark stays', async () => {
    await mustRun('iptables-legacy -t mangle -A OUTPUT -j MARK --or-mark 0x100000'.split(' '))
    const later = readerOf((chain) => chain === 'OUTPUT')
    const reads = [readerOf().read]
    const read = async (): Promise<FirewallChains> => await (reads.shift() ?? later.read)()
    const answer = await explain({ to: atVip }, { ...later, read })
    assert.deepEqual([answer.mark.state, answer.firewall.state], ['loses', 'unknown'])
    assert.deepEqual(candidatesOf(answer), [here])
  })
})
