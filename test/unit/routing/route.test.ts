import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Tracker } from '../../../src/model/index.js'
import { route } from '../../../src/routing/index.js'
import type { Service, SliceEndpoint } from '../../../src/source/index.js'
import { endpoint, port, service, set, slice } from '../../support/objects.js'

interface Case {
  readonly name: string
  readonly endpoints: readonly SliceEndpoint[]
  readonly service?: Partial<Service>
  readonly zone?: string
  readonly expected: readonly string[]
}

const leaving = { ready: false, serving: true, terminating: true }
const local = { internalTrafficPolicy: 'Local' as const }

const cases: readonly Case[] = [
  {
    name: 'ready ones, sorted bytewise',
    endpoints: [endpoint('10.1.0.9'), endpoint('10.1.0.10')],
    expected: ['10.1.0.10', '10.1.0.9'],
  },
  {
    name: 'not those that are not ready',
    endpoints: [endpoint('10.1.0.1'), endpoint('10.1.0.2', { ready: false })],
    expected: ['10.1.0.1'],
  },
  {
    name: 'those that serve while they terminate only when none is ready',
    endpoints: [endpoint('10.1.0.1'), endpoint('10.1.0.2', leaving)],
    expected: ['10.1.0.1'],
  },
  {
    name: 'else them',
    endpoints: [
      endpoint('10.1.0.1', { ready: false, serving: false, terminating: true }),
      endpoint('10.1.0.2', leaving),
    ],
    expected: ['10.1.0.2'],
  },
  { name: 'nobody', endpoints: [endpoint('10.1.0.1', { ready: false })], expected: [] },
  {
    name: 'Local: those of this node',
    service: local,
    endpoints: [
      endpoint('10.1.0.1', { nodeName: 'here' }),
      endpoint('10.1.0.2', { nodeName: 'there' }),
      endpoint('10.1.0.3'),
    ],
    expected: ['10.1.0.1'],
  },
  {
    name: 'Local: those that leave, when none here is ready',
    service: local,
    endpoints: [
      endpoint('10.1.0.1', { ...leaving, nodeName: 'here' }),
      endpoint('10.1.0.2', { nodeName: 'there' }),
    ],
    expected: ['10.1.0.1'],
  },
  {
    name: 'Local: nobody here',
    service: local,
    endpoints: [endpoint('10.1.0.2', { nodeName: 'there' })],
    expected: [],
  },
  {
    name: 'Local, nobody here, but reachable from outside',
    service: { ...local, ports: [port(80, { nodePort: 30080 })] },
    endpoints: [endpoint('10.1.0.2', { nodeName: 'there' })],
    expected: ['10.1.0.2'],
  },
  {
    name: 'Local, reachable through an external IP of the other family only',
    service: { ...local, externalIPs: ['fd00::9'] },
    endpoints: [endpoint('10.1.0.2', { nodeName: 'there' })],
    expected: [],
  },
  {
    name: 'zone hints when all have them',
    zone: 'a',
    endpoints: [endpoint('10.1.0.1', { zoneHints: ['a'] }), endpoint('10.1.0.2', { zoneHints: ['b'] })],
    expected: ['10.1.0.1'],
  },
  {
    name: 'no zone hints when one has none',
    zone: 'a',
    endpoints: [endpoint('10.1.0.1', { zoneHints: ['a'] }), endpoint('10.1.0.2')],
    expected: ['10.1.0.1', '10.1.0.2'],
  },
  {
    name: 'no zone hints when none names this zone',
    zone: 'c',
    endpoints: [endpoint('10.1.0.1', { zoneHints: ['a'] }), endpoint('10.1.0.2', { zoneHints: ['b'] })],
    expected: ['10.1.0.1', '10.1.0.2'],
  },
  {
    name: 'no zone hints without a zone',
    endpoints: [endpoint('10.1.0.1', { zoneHints: ['a'] }), endpoint('10.1.0.2', { zoneHints: ['b'] })],
    expected: ['10.1.0.1', '10.1.0.2'],
  },
  {
    name: 'hints of endpoints that are not ready do not count',
    zone: 'a',
    endpoints: [
      endpoint('10.1.0.1', { zoneHints: ['a'] }),
      endpoint('10.1.0.2', { zoneHints: ['b'] }),
      endpoint('10.1.0.3', { ready: false }),
    ],
    expected: ['10.1.0.1'],
  },
  {
    name: 'node hints before zone hints',
    zone: 'a',
    endpoints: [
      endpoint('10.1.0.1', { zoneHints: ['a'], nodeHints: ['there'] }),
      endpoint('10.1.0.2', { zoneHints: ['b'], nodeHints: ['here'] }),
    ],
    expected: ['10.1.0.2'],
  },
  {
    name: 'hints never count for those that leave',
    zone: 'a',
    endpoints: [endpoint('10.1.0.1', { ...leaving, zoneHints: ['b'] })],
    expected: ['10.1.0.1'],
  },
  {
    name: 'hints never count for Local',
    service: local,
    zone: 'a',
    endpoints: [
      endpoint('10.1.0.1', { nodeName: 'here', zoneHints: ['b'] }),
      endpoint('10.1.0.2', { nodeName: 'there', zoneHints: ['a'] }),
    ],
    expected: ['10.1.0.1'],
  },
]

describe('which endpoints take the traffic', () => {
  for (const { name, endpoints, service: rest, zone, expected } of cases) {
    it(name, () => {
      const tracker = new Tracker('ipv4', () => {})
      tracker.apply(set(service('web', '10.0.0.1', rest ?? {})))
      tracker.apply(set(slice('s', 'web', endpoints)))
      const [found] = [...tracker.take()].map((key) => tracker.servicePort(key))
      assert.ok(found !== undefined)
      const decided = route(found, tracker.endpoints(found), { name: 'here', zone })
      assert.deepEqual(
        (decided.isInternalLocal && decided.localBackends.length > 0
          ? decided.localBackends
          : decided.clusterBackends
        ).map(({ address }) => String(address)),
        expected,
      )
    })
  }
})
