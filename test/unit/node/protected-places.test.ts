import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formatEndpoint } from '../../../src/address.js'
import { NodeTracker, servedPlaces } from '../../../src/node/index.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import { remove, set, slice } from '../../support/objects.js'
import { ip } from '../../support/routes.js'

const https = { ports: [{ name: 'https', protocol: 'TCP', port: 6443 }] } as const

function connected(address: string, port: number): ObjectEvent {
  return { type: 'connected', address, port }
}

/** The places of the API server after the events, and whether the last one changed them. */
function after(...events: readonly ObjectEvent[]): readonly [places: string, isChanged: boolean] {
  const tracker = new NodeTracker('node-a')
  let isChanged = false
  for (const event of events) isChanged = tracker.apply(event).places
  const { apiServer } = tracker.facts.places
  return [apiServer.map(({ address, port }) => formatEndpoint(address, port)).join(' '), isChanged]
}

const kubernetes = set(slice('kubernetes', 'kubernetes', ['192.0.2.1', '192.0.2.2'], https))

const cases: readonly {
  readonly name: string
  readonly events: readonly ObjectEvent[]
  readonly expected: readonly [places: string, isChanged: boolean]
}[] = [
  { name: 'none before the first connection', events: [], expected: ['', false] },
  {
    name: 'the other end of the connection',
    events: [connected('192.0.2.9', 443)],
    expected: ['192.0.2.9:443', true],
  },
  {
    name: 'every end since the start: the next connection may lead there again',
    events: [connected('192.0.2.9', 443), connected('192.0.2.8', 443)],
    expected: ['192.0.2.8:443 192.0.2.9:443', true],
  },
  {
    name: 'no change by the same end',
    events: [connected('192.0.2.9', 443), connected('192.0.2.9', 443)],
    expected: ['192.0.2.9:443', false],
  },
  {
    name: 'the endpoints of default/kubernetes',
    events: [kubernetes],
    expected: ['192.0.2.1:6443 192.0.2.2:6443', true],
  },
  {
    name: 'no endpoint of a Service kubernetes in another namespace',
    events: [set(slice('kubernetes', 'kubernetes', ['192.0.2.1'], { ...https, namespace: 'evil' }))],
    expected: ['', false],
  },
  {
    name: 'the endpoints that an update leaves',
    events: [kubernetes, set(slice('kubernetes', 'kubernetes', ['192.0.2.2'], https))],
    expected: ['192.0.2.2:6443', true],
  },
  {
    name: 'none of a slice that is gone',
    events: [kubernetes, remove('EndpointSlice', 'kubernetes')],
    expected: ['', true],
  },
  {
    name: 'none of a slice that moved to another Service',
    events: [kubernetes, set(slice('kubernetes', 'web', ['192.0.2.1'], https))],
    expected: ['', true],
  },
  {
    name: 'one place for an end that is an endpoint too',
    events: [connected('192.0.2.1', 6443), kubernetes],
    expected: ['192.0.2.1:6443 192.0.2.2:6443', true],
  },
]

describe('the places of the API server', () => {
  for (const { name, events, expected } of cases)
    it(`are ${name}`, () => assert.deepEqual(after(...events), expected))

  it('are bounded: the oldest ends of connections are forgotten', () => {
    const events = Array.from({ length: 40 }, (_, i) => connected('192.0.2.9', 1000 + i))
    const [places] = after(...events)
    assert.equal(places.split(' ').length, 16)
    assert.match(places, /:1039/)
  })
})

function at(host: string, port: number) {
  return { host: ip(host), port }
}

describe('the places of the agent', () => {
  it('are every address of the machine where a server binds the unspecified one', () => {
    assert.deepEqual(
      servedPlaces({ healthzBindAddress: at('::', 10256), metricsBindAddress: at('127.0.0.1', 10249) }),
      [
        { server: 'healthz', address: 'all', port: 10256 },
        { server: 'metrics', address: '127.0.0.1', port: 10249 },
      ],
    )
  })

  it('are none without servers', () => {
    assert.deepEqual(servedPlaces({ healthzBindAddress: undefined, metricsBindAddress: undefined }), [])
  })
})
