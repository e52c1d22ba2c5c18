// The network of the traffic table without an agent: hosts reach each other, and probes distinguish refusal, silence and answers.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setSysctls } from '../support/namespaces.js'
import { Topology } from '../support/topology.js'
import {
  addresses,
  families,
  type Place,
  podGateway,
  privatePort,
  server,
  serverPorts,
} from '../traffic/table/world.js'

const silenceMs = 400
const limitMs = 5000
const sources: readonly Place[] = ['a1', 'a2', 'b1', 'node', 'neighbour', 'outside']
const port = 8080

describe('the network of the traffic table', { timeout: 60_000 }, () => {
  let lab: Topology
  before(async () => (lab = await Topology.build(['TCP', 'UDP'])))
  after(() => lab.close())

  for (const family of families) {
    for (const protocol of ['TCP', 'UDP'] as const) {
      it(`every host reaches every pod: ${family} ${protocol}`, async () => {
        for (const pod of ['a0', 'b0'] as const) {
          const outcomes = sources.map(async (from) => {
            const target = { protocol, address: addresses[pod][family], port }
            const outcome = await lab.prober(from).probe(target, limitMs)
            const seen = from === 'node' && pod === 'a0' ? podGateway[family] : addresses[from][family]
            assert.ok(outcome.kind === 'answer', `${from} to ${pod}: ${JSON.stringify(outcome)}`)
            assert.deepEqual([outcome.by, outcome.sees], [server(pod, family), seen], `${from} to ${pod}`)
          })
          await Promise.all(outcomes)
        }
      })

      it(`a probe of a closed port is refused: ${family} ${protocol}`, async () => {
        const target = { protocol, address: addresses.b0[family], port: 9 }
        assert.deepEqual(await lab.prober('outside').probe(target, limitMs), { kind: 'refused' })
      })

      it(`packets to an untranslated virtual address are lost: ${family} ${protocol}`, async () => {
        const address = family === 'IPv4' ? '10.96.0.1' : 'fd00:10:96::1'
        const outcomes = await Promise.all(
          sources.map((from) => lab.prober(from).probe({ protocol, address, port: 80 }, silenceMs)),
        )
        assert.deepEqual(
          outcomes,
          sources.map(() => ({ kind: 'dropped' })),
        )
      })
    }

    it(`a stray segment reaches a pod if no rule drops it: ${family}`, async () => {
      const outcome = await lab.prober('outside').stray(addresses.a0[family], serverPorts[0] ?? port, limitMs)
      assert.deepEqual(outcome, { kind: 'refused' })
    })
  }

  it('a session stays open over several requests', async () => {
    const target = { protocol: 'TCP', address: addresses.a0.IPv4, port } as const
    const first = await lab.prober('outside').ask('one', target, limitMs)
    const second = await lab.prober('outside').ask('one', target, limitMs)
    assert.ok(first.kind === 'answer')
    assert.deepEqual(second, first)
  })

  it('a neighbour reaches 127.0.0.1 of an unprotected node with route_localnet', async () => {
    const target = { protocol: 'TCP', address: '127.0.0.1', port: privatePort } as const
    assert.deepEqual(await lab.prober('neighbour').probe(target, silenceMs), { kind: 'dropped' })
    await setSysctls(lab.node, 'net.ipv4.conf.all.route_localnet=1')
    const outcome = await lab.prober('neighbour').probe(target, limitMs)
    assert.ok(outcome.kind === 'answer', JSON.stringify(outcome))
  })
})
