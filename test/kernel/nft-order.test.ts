// The table of nftables mode beside tables that other programs made later, at the priorities dstnat, filter and srcnat: the kernel passes
// the chain first that was registered last, so their rules came before those of Services. Issue 35, E3.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { IpFamily } from '../../src/address.js'
import { exampleFamilies, type ExampleService, nodePortOf, virtualAddress } from '../support/nft-example.js'
import type { ProbeTarget } from '../support/probes.js'
import { Topology } from '../support/topology.js'
import { addresses, type Place, podGateway, secondNodeAddress, server } from '../traffic/table/world.js'

const limitMs = 10_000
/** All of them miss the rules of the other program once in 10^9 runs, if it takes half of the connections. */
const rounds = 30

const probes: readonly {
  readonly name: string
  readonly from: Place
  readonly service: ExampleService
  readonly to: 'cluster' | 'node'
}[] = [
  { name: 'pod to cluster IP', from: 'a2', service: 'spread', to: 'cluster' },
  { name: 'node to cluster IP', from: 'node', service: 'spread', to: 'cluster' },
  { name: 'outside to cluster IP', from: 'outside', service: 'spread', to: 'cluster' },
  { name: 'outside to node port', from: 'outside', service: 'spread', to: 'node' },
  { name: 'pod to a cluster IP without endpoints', from: 'a2', service: 'empty', to: 'cluster' },
  { name: 'node to a cluster IP without endpoints', from: 'node', service: 'empty', to: 'cluster' },
  { name: 'outside to a node port without endpoints', from: 'outside', service: 'empty', to: 'node' },
]

function chain(type: string, hook: string, priority: number, rule: string): string {
  return `chain ${hook}-${type} { type ${type} hook ${hook} priority ${priority}; ${rule}; }`
}

/** Takes what goes to Services to another server, drops what goes to those without endpoints, and gives all translated connections another source. */
function otherTable(family: IpFamily): string {
  const world = exampleFamilies[family]
  const ip = family === 'ipv4' ? 'ip' : 'ip6'
  const ports = `{ 80, ${nodePortOf('spread')} }`
  const thief = family === 'ipv4' ? addresses.b1[world] : `[${addresses.b1[world]}]`
  const served = [virtualAddress('cluster', family, 'spread'), addresses.node[world]].join(', ')
  const away = `${ip} daddr { ${served} } meta l4proto { tcp, udp } th dport ${ports} dnat to ${thief}:8080`
  const lost = [virtualAddress('cluster', family, 'empty'), addresses.node[world]].join(', ')
  const drop = `${ip} daddr { ${lost} } th dport { 80, ${nodePortOf('empty')} } meta l4proto { tcp, udp } drop`
  return `table ${ip} other {
${chain('nat', 'prerouting', -100, away)}
${chain('nat', 'output', -100, away)}
${chain('nat', 'postrouting', 100, `ct status dnat snat to ${secondNodeAddress[world]}`)}
${(['input', 'forward', 'output'] as const).map((hook) => chain('filter', hook, 0, drop)).join('\n')}
}`
}

describe("another program's chains at the usual priorities, made later", { timeout: 120_000 }, () => {
  let lab: Topology
  before(async () => {
    lab = await Topology.build(['TCP', 'UDP'])
    await lab.node.must(process.execPath, fileURLToPath(new URL('../support/nft-writer.js', import.meta.url)))
    for (const family of ['ipv4', 'ipv6'] as const)
      await lab.node.must('sh', '-c', 'printf "%s\\n" "$1" | nft -f -', 'sh', otherTable(family))
  })
  after(() => lab.close())

  async function answers(from: Place, target: ProbeTarget): Promise<readonly string[]> {
    const outcomes = await Promise.all(
      Array.from({ length: rounds }, () => lab.prober(from).probe(target, limitMs)),
    )
    const texts = outcomes.map((each) => (each.kind === 'answer' ? `${each.by} saw ${each.sees}` : each.kind))
    return [...new Set(texts)].toSorted()
  }

  for (const family of ['ipv4', 'ipv6'] as const) {
    const world = exampleFamilies[family]
    /** The client that a server sees. */
    const sees = (from: Place, place: Place): string =>
      from === 'a2' ? addresses.a2[world] : place.startsWith('a') ? podGateway[world] : addresses.node[world]
    for (const protocol of ['TCP', 'UDP'] as const) {
      for (const { name, from, service, to } of probes) {
        it(`${name}: ${family} ${protocol}`, async () => {
          const target =
            to === 'node'
              ? { protocol, address: addresses.node[world], port: nodePortOf(service) }
              : { protocol, address: virtualAddress('cluster', family, service), port: 80 }
          const expected =
            service === 'empty'
              ? ['refused']
              : (['a0', 'a1', 'b0'] as const).map(
                  (place) => `${server(place, world)} saw ${sees(from, place)}`,
                )
          const found = await answers(from, target)
          const isSourceOfOther = from === 'a2' && service === 'spread'
          // A pod's connection is not masqueraded, so the other program may give it another source.
          const wanted = isSourceOfOther
            ? (['a0', 'a1', 'b0'] as const).map(
                (place) => `${server(place, world)} saw ${secondNodeAddress[world]}`,
              )
            : expected
          assert.deepEqual(found, wanted.toSorted())
        })
      }
    }
  }
})
