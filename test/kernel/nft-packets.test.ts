// The path of packets through the table of nftables mode, on the real kernel. The traffic table has the whole, by an agent.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { IpFamily } from '../../src/address.js'
import {
  exampleFamilies,
  type ExampleService,
  nodePortOf,
  unallocated,
  virtualAddress,
} from '../support/nft-example.js'
import type { ProbeOutcome, ProbeTarget } from '../support/probes.js'
import { Topology } from '../support/topology.js'
import { addresses, type Place, podGateway, server } from '../traffic/table/world.js'

const limitMs = 10_000
const silenceMs = 400
/** All of them miss one of three endpoints once in 10^17 runs. */
const rounds = 100

interface Case {
  readonly name: string
  readonly from: Place
  readonly service: ExampleService | number
  readonly to: 'cluster' | 'external' | 'balancer' | 'node'
  /** Default 80, or the node port. */
  readonly port?: number
  /** Servers that answer, all of them, or what happens instead. */
  readonly expected: readonly Place[] | 'refused' | 'dropped'
  /** Servers see the node instead of the client. */
  readonly isMasqueraded?: boolean
  /** All connections of a client go to one of the expected servers. */
  readonly isSticky?: boolean
}

const three: readonly Place[] = ['a0', 'a1', 'b0']
const four: readonly Place[] = ['a0', 'a1', 'b0', 'b1']
const cases: readonly Case[] = [
  { name: 'pod to cluster IP', from: 'a2', service: 'spread', to: 'cluster', expected: three },
  {
    name: 'outside to cluster IP',
    from: 'outside',
    service: 'spread',
    to: 'cluster',
    expected: three,
    isMasqueraded: true,
  },
  {
    name: 'node to cluster IP',
    from: 'node',
    service: 'spread',
    to: 'cluster',
    expected: three,
    isMasqueraded: true,
  },
  {
    name: 'pod to external IP',
    from: 'a2',
    service: 'spread',
    to: 'external',
    expected: three,
    isMasqueraded: true,
  },
  {
    name: 'outside to load-balancer IP',
    from: 'outside',
    service: 'spread',
    to: 'balancer',
    expected: three,
    isMasqueraded: true,
  },
  {
    name: 'outside to node port',
    from: 'outside',
    service: 'spread',
    to: 'node',
    expected: three,
    isMasqueraded: true,
  },
  {
    name: 'node to its node port',
    from: 'node',
    service: 'spread',
    to: 'node',
    expected: three,
    isMasqueraded: true,
  },
  {
    name: 'F-051 outside, policy Local',
    from: 'outside',
    service: 'local',
    to: 'external',
    expected: ['a1'],
  },
  {
    name: 'F-051 outside, node port, policy Local',
    from: 'outside',
    service: 'local',
    to: 'node',
    expected: ['a1'],
  },
  { name: 'F-051 pod, policy Local', from: 'a2', service: 'local', to: 'external', expected: ['a1', 'b0'] },
  {
    name: 'F-051 pod, node port, policy Local',
    from: 'a2',
    service: 'local',
    to: 'node',
    expected: ['a1', 'b0'],
  },
  {
    name: 'F-051 node, policy Local',
    from: 'node',
    service: 'local',
    to: 'external',
    expected: ['a1', 'b0'],
    isMasqueraded: true,
  },
  {
    name: 'F-051 node, node port, policy Local',
    from: 'node',
    service: 'local',
    to: 'node',
    expected: ['a1', 'b0'],
    isMasqueraded: true,
  },
  {
    name: 'F-054 outside, only other nodes',
    from: 'outside',
    service: 'away',
    to: 'external',
    expected: 'dropped',
  },
  {
    name: 'F-054 outside, node port, only other nodes',
    from: 'outside',
    service: 'away',
    to: 'node',
    expected: 'dropped',
  },
  {
    name: 'F-051 pod, only other nodes',
    from: 'a2',
    service: 'away',
    to: 'external',
    expected: ['b0', 'b1'],
  },
  {
    name: 'F-051 node, node port, only other nodes',
    from: 'node',
    service: 'away',
    to: 'node',
    expected: ['b0', 'b1'],
    isMasqueraded: true,
  },
  { name: 'F-054 internal policy Local', from: 'a2', service: 'inner', to: 'cluster', expected: 'dropped' },
  {
    name: 'F-056 a source in a range',
    from: 'outside',
    service: 'guarded',
    to: 'balancer',
    expected: ['b0'],
    isMasqueraded: true,
  },
  {
    name: 'F-056 a pod in a range',
    from: 'a2',
    service: 'guarded',
    to: 'balancer',
    expected: ['b0'],
    isMasqueraded: true,
  },
  {
    name: 'F-056 a source in no range',
    from: 'neighbour',
    service: 'guarded',
    to: 'balancer',
    expected: 'dropped',
  },
  {
    name: 'F-056 the node in no range',
    from: 'node',
    service: 'guarded',
    to: 'balancer',
    expected: 'dropped',
  },
  {
    name: 'F-056 ranges are not for external IPs',
    from: 'neighbour',
    service: 'guarded',
    to: 'external',
    expected: ['b0'],
    isMasqueraded: true,
  },
  { name: 'F-053 pod to cluster IP', from: 'a2', service: 'empty', to: 'cluster', expected: 'refused' },
  { name: 'F-053 node to cluster IP', from: 'node', service: 'empty', to: 'cluster', expected: 'refused' },
  {
    name: 'F-053 outside to external IP',
    from: 'outside',
    service: 'empty',
    to: 'external',
    expected: 'refused',
  },
  { name: 'F-053 outside to node port', from: 'outside', service: 'empty', to: 'node', expected: 'refused' },
  { name: 'F-053 node to node port', from: 'node', service: 'empty', to: 'node', expected: 'refused' },
  {
    name: 'F-055 another port of a cluster IP',
    from: 'a2',
    service: 'spread',
    to: 'cluster',
    port: 81,
    expected: 'refused',
  },
  {
    name: 'F-055 an unused cluster IP',
    from: 'a2',
    service: unallocated,
    to: 'cluster',
    expected: 'dropped',
  },
  {
    name: 'F-050 an endpoint to itself',
    from: 'a0',
    service: 'self',
    to: 'cluster',
    expected: ['a0'],
    isMasqueraded: true,
  },
  { name: 'affinity, pod', from: 'a2', service: 'sticky', to: 'cluster', expected: four, isSticky: true },
  {
    name: 'affinity, outside to external IP',
    from: 'outside',
    service: 'sticky',
    to: 'external',
    expected: four,
    isMasqueraded: true,
    isSticky: true,
  },
  {
    name: 'affinity, policy Local, outside',
    from: 'outside',
    service: 'stickyLocal',
    to: 'external',
    expected: ['a0', 'a1'],
    isSticky: true,
  },
  {
    name: 'affinity, policy Local, pod',
    from: 'a2',
    service: 'stickyLocal',
    to: 'external',
    expected: four,
    isSticky: true,
  },
  {
    name: 'affinity, policy Local, node, node port',
    from: 'node',
    service: 'stickyLocal',
    to: 'node',
    expected: four,
    isMasqueraded: true,
    isSticky: true,
  },
  {
    name: 'a Service without affinity, on the port of a node port with affinity',
    from: 'outside',
    service: 'clash',
    to: 'cluster',
    port: nodePortOf('sticky'),
    expected: ['a2'],
    isMasqueraded: true,
  },
  {
    name: 'affinity, outside to node port',
    from: 'outside',
    service: 'sticky',
    to: 'node',
    expected: four,
    isMasqueraded: true,
    isSticky: true,
  },
]

function targetOf({ service, to, port }: Case, family: IpFamily, protocol: 'TCP' | 'UDP'): ProbeTarget {
  if (to === 'node' && typeof service === 'string')
    return { protocol, address: addresses.node[exampleFamilies[family]], port: nodePortOf(service) }
  const kind = to === 'node' ? 'cluster' : to
  return { protocol, address: virtualAddress(kind, family, service), port: port ?? 80 }
}

/** The client that a server sees. */
function seenBy(place: Place, { from, isMasqueraded }: Case, family: IpFamily): string {
  const world = exampleFamilies[family]
  if (isMasqueraded !== true) return addresses[from][world]
  return place.startsWith('a') ? podGateway[world] : addresses.node[world]
}

function checkAnswers(one: Case, family: IpFamily, outcomes: readonly ProbeOutcome[]): void {
  const world = exampleFamilies[family]
  const { expected } = one
  const answers = outcomes.map((outcome) =>
    outcome.kind === 'answer' ? `${outcome.by} saw ${outcome.sees}` : JSON.stringify(outcome),
  )
  const found = [...new Set(answers)].toSorted()
  const wanted =
    typeof expected === 'string'
      ? [JSON.stringify({ kind: expected })]
      : expected.map((place) => `${server(place, world)} saw ${seenBy(place, one, family)}`).toSorted()
  if (one.isSticky !== true) return assert.deepEqual(found, wanted)
  assert.equal(found.length, 1, found.join('\n'))
  assert.ok(wanted.includes(found[0] ?? ''), found[0])
}

/** Sends an ICMP echo request and prints `refused` when a port unreachable message answers it. */
const echoRequest = `
import socket, sys
address = sys.argv[1]
is_v6 = ':' in address
family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if is_v6 else (socket.AF_INET, socket.IPPROTO_ICMP)
request = b'\\x80\\x00\\x00\\x00' if is_v6 else b'\\x08\\x00\\xf7\\xff'
with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
    raw.settimeout(5)
    raw.connect((address, 0))
    try:
        raw.send(request + b'\\x00\\x00\\x00\\x00')
        print(raw.recv(100), end='')
    except ConnectionRefusedError:
        print('refused', end='')
`

describe('packets in the table of nftables mode', { timeout: 120_000 }, () => {
  let lab: Topology
  before(async () => {
    lab = await Topology.build(['TCP', 'UDP'])
    const writer = fileURLToPath(new URL('../support/nft-writer.js', import.meta.url))
    await lab.node.must(process.execPath, writer)
  })
  after(() => lab.close())

  for (const family of ['ipv4', 'ipv6'] as const) {
    for (const protocol of ['TCP', 'UDP'] as const) {
      for (const one of cases) {
        it(`${one.name}: ${family} ${protocol}`, async () => {
          const target = targetOf(one, family, protocol)
          const prober = lab.prober(one.from)
          const isSilent = one.expected === 'dropped'
          // The first connection records the endpoint; those at the same moment would each have their own.
          const first = await prober.probe(target, isSilent ? silenceMs : limitMs)
          const count = typeof one.expected === 'string' ? 0 : rounds
          const others = Array.from({ length: count }, () => prober.probe(target, limitMs))
          checkAnswers(one, family, [first, ...(await Promise.all(others))])
        })
      }
    }

    it(`a ping of a cluster IP is refused: ${family}`, async () => {
      const address = virtualAddress('cluster', family, 'spread')
      assert.equal(await lab.namespace('a2').must('python3', '-c', echoRequest, address), 'refused')
    })
  }
})
