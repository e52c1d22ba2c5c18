// The endpoints that get the traffic of a Service port: one table per rule of kube-proxy.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { trackFamily } from '../../support/tracked-family.js'
import { route, type Backend, type Route } from '../../../src/routing/index.js'
import type { Service, SliceEndpoint } from '../../../src/source/index.js'
import { endpoint, port, service, set, slice } from '../../support/objects.js'

const leaving = { ready: false, serving: true, terminating: true }
const gone = { ready: false, serving: false, terminating: true }
const here = { nodeName: 'here' }
const there = { nodeName: 'there' }
const nodePort = { ports: [port(80, { nodePort: 30080 })] }

const internal = { internalTrafficPolicy: 'Local' } as const
const external = { ...nodePort, type: 'NodePort', externalTrafficPolicy: 'Local' } as const

/** 10.1.0.x */
function at(last: number, rest: Parameters<typeof endpoint>[1] = {}): SliceEndpoint {
  return endpoint(`10.1.0.${last}`, rest)
}

function decide(endpoints: readonly SliceEndpoint[], rest: Partial<Service> = {}, zone?: string): Route {
  const tracker = trackFamily('ipv4')
  tracker.apply(set(service('web', '10.0.0.1', rest)))
  const [{ protocol } = { protocol: 'TCP' as const }] = rest.ports ?? []
  tracker.apply(set(slice('s', 'web', endpoints, { ports: [{ name: '', protocol, port: 8080 }] })))
  const [found] = [...tracker.take()].map((key) => tracker.servicePort(key))
  assert.ok(found !== undefined)
  return route(found, tracker.endpoints(found), { name: 'here', zone })
}

function lasts(backends: readonly Backend[]): readonly number[] {
  return backends.map(({ address }) => Number(address.split('.').at(-1)))
}

interface Case {
  readonly name: string
  readonly endpoints: readonly SliceEndpoint[]
  readonly zone?: string
  readonly expected: readonly number[]
}

describe('policy Cluster chooses', () => {
  const cases: readonly Case[] = [
    { name: 'F-031 endpoints in bytewise order', endpoints: [at(9), at(10)], expected: [10, 9] },
    {
      name: 'F-031 endpoints in bytewise order for any order of the slice',
      endpoints: [at(2), at(199), at(1), at(20), at(19), at(200), at(100), at(10)],
      expected: [100, 10, 199, 19, 1, 200, 20, 2],
    },
    { name: 'F-030 each endpoint once', endpoints: [at(3), at(1), at(3)], expected: [1, 3] },
    { name: 'F-032 ready endpoints', endpoints: [at(1), at(2, { ready: false })], expected: [1] },
    {
      name: 'F-032 only ready endpoints while others serve and terminate',
      endpoints: [at(1), at(2, leaving)],
      expected: [1],
    },
    {
      name: 'F-032 serving terminating endpoints when none is ready',
      endpoints: [at(1, gone), at(2, leaving)],
      expected: [2],
    },
    { name: 'F-032 none when none is ready or serves', endpoints: [at(1, { ready: false })], expected: [] },
    {
      name: 'F-036 by zone hints when all endpoints have them',
      zone: 'a',
      endpoints: [at(1, { zoneHints: ['a'] }), at(2, { zoneHints: ['b'] }), at(3, { zoneHints: ['b', 'a'] })],
      expected: [1, 3],
    },
    {
      name: 'F-036 without zone hints when one endpoint has none',
      zone: 'a',
      endpoints: [at(1, { zoneHints: ['a'] }), at(2)],
      expected: [1, 2],
    },
    {
      name: 'F-036 without zone hints when none names this zone',
      zone: 'c',
      endpoints: [at(1, { zoneHints: ['a'] }), at(2, { zoneHints: ['b'] })],
      expected: [1, 2],
    },
    {
      name: 'F-036 without zone hints on a node without a zone',
      endpoints: [at(1, { zoneHints: ['a'] }), at(2, { zoneHints: ['b'] })],
      expected: [1, 2],
    },
    {
      name: 'F-036 without the hints of endpoints that are not ready',
      zone: 'a',
      endpoints: [at(1, { zoneHints: ['a'] }), at(2, { zoneHints: ['b'] }), at(3, { ready: false })],
      expected: [1],
    },
    {
      name: 'F-036 by node hints before zone hints',
      zone: 'a',
      endpoints: [
        at(1, { zoneHints: ['a'], nodeHints: ['there'] }),
        at(2, { zoneHints: ['b'], nodeHints: ['here'] }),
      ],
      expected: [2],
    },
    {
      name: 'F-036 by zone hints when one endpoint has no node hint',
      zone: 'a',
      endpoints: [at(1, { zoneHints: ['a'] }), at(2, { zoneHints: ['b'], nodeHints: ['here'] })],
      expected: [1],
    },
    {
      name: 'F-036 by zone hints when no node hint names this node',
      zone: 'a',
      endpoints: [
        at(1, { zoneHints: ['a'], nodeHints: ['there'] }),
        at(2, { zoneHints: ['b'], nodeHints: ['there'] }),
      ],
      expected: [1],
    },
    {
      name: 'F-036 terminating endpoints without their hints',
      zone: 'a',
      endpoints: [at(1, { ...leaving, zoneHints: ['b'] })],
      expected: [1],
    },
  ]
  for (const { name, endpoints, zone, expected } of cases) {
    it(name, () => {
      const decided = decide(endpoints, {}, zone)
      assert.deepEqual(lasts(decided.clusterBackends), expected)
      assert.deepEqual(decided.localBackends, [], 'F-016')
      assert.equal(decided.hasEndpoints, expected.length > 0, 'F-034')
    })
  }
})

describe('policy Local chooses', () => {
  const cases: readonly Case[] = [
    { name: 'F-033 endpoints of this node', endpoints: [at(1, here), at(2, there), at(3)], expected: [1] },
    {
      name: 'F-033 terminating local endpoints when no local one is ready, even if remote ones are',
      endpoints: [at(1, { ...leaving, ...here }), at(2, there)],
      expected: [1],
    },
    {
      name: 'F-033 no terminating endpoints when a local one is ready',
      endpoints: [at(1, { ...leaving, ...here }), at(2, here)],
      expected: [2],
    },
    { name: 'F-033 none without local endpoints', endpoints: [at(2, there)], expected: [] },
    {
      name: 'F-036 without any hints',
      zone: 'a',
      endpoints: [at(1, { ...here, zoneHints: ['b'] }), at(2, { ...there, zoneHints: ['a'] })],
      expected: [1],
    },
  ]
  for (const { name, endpoints, zone, expected } of cases) {
    for (const [policy, rest] of [
      ['internal', internal],
      ['external', external],
    ] as const) {
      it(`${name} (${policy})`, () => {
        assert.deepEqual(lasts(decide(endpoints, rest, zone).localBackends), expected)
      })
    }
  }
})

describe('the lists of backends of a route', () => {
  const endpoints = [at(1, here), at(2, there)]
  const vip = { loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'VIP' as const }] }
  const cases: readonly {
    name: string
    service: Partial<Service>
    cluster: readonly number[]
    local: readonly number[]
  }[] = [
    { name: 'F-015 policy Cluster', service: {}, cluster: [1, 2], local: [] },
    { name: 'F-015 internal Local without external access', service: internal, cluster: [], local: [1] },
    {
      name: 'F-015 internal Local with a node port',
      service: { ...internal, ...nodePort },
      cluster: [1, 2],
      local: [1],
    },
    {
      name: 'F-015 internal Local with a load balancer',
      service: { ...internal, ...vip },
      cluster: [1, 2],
      local: [1],
    },
    {
      name: 'F-015 internal Local, with an external IP of the other family only',
      service: { ...internal, externalIPs: ['fd00::9'] },
      cluster: [],
      local: [1],
    },
    { name: 'F-016 external Local', service: external, cluster: [1, 2], local: [1] },
    {
      name: 'F-016 external Local without external access',
      service: { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 1 },
      cluster: [1, 2],
      local: [],
    },
    { name: 'F-016 both Local', service: { ...external, ...internal }, cluster: [1, 2], local: [1] },
  ]
  for (const { name, service: rest, cluster, local } of cases) {
    it(name, () => {
      const decided = decide(endpoints, rest)
      assert.deepEqual(lasts(decided.clusterBackends), cluster)
      assert.deepEqual(lasts(decided.localBackends), local)
    })
  }
})

describe('F-034 whether a route refuses or drops', () => {
  const cases: readonly (readonly [string, Partial<Service>, SliceEndpoint, boolean])[] = [
    ['internal Local, ready elsewhere', internal, at(1, there), true],
    ['internal Local, leaving elsewhere', internal, at(1, { ...there, ...leaving }), true],
    ['internal Local, gone', internal, at(1, { ...here, ...gone }), false],
    ['internal Local, not ready', internal, at(1, { ...here, ready: false }), false],
    ['external Local, ready elsewhere', external, at(1, there), true],
    ['external Local, gone', external, at(1, gone), false],
    ['Cluster, leaving', {}, at(1, leaving), true],
    ['Cluster, gone', {}, at(1, gone), false],
  ]
  for (const [name, rest, one, expected] of cases) {
    it(name, () => assert.equal(decide([one], rest).hasEndpoints, expected))
  }

  it('does not depend on local endpoints: internal Local, one terminating here and one ready elsewhere', () => {
    const decided = decide([at(1, { ...here, ...leaving }), at(2, there)], internal)
    assert.deepEqual([lasts(decided.localBackends), decided.hasEndpoints], [[1], true])
  })
})

describe('the endpoints that keep UDP flows (issue 18, A8)', () => {
  const udp = { ports: [port(53, { protocol: 'UDP' })] }
  const endpoints = [at(3, leaving), at(1, here), at(2, { ready: false, serving: false }), at(4, gone)]

  it('are all serving ones on any node under any policy', () => {
    for (const policy of [{}, internal]) {
      assert.deepEqual(lasts(decide(endpoints, { ...udp, ...policy }).flowBackends), [1, 3])
    }
  })

  it('are all while none serves', () => {
    const unready = { ready: false, serving: false }
    const none = [at(2, unready), at(1, { ...here, ...unready }), at(3, { ...unready, terminating: true })]
    assert.deepEqual(lasts(decide(none, udp).flowBackends), [1, 2, 3])
  })

  it('are none for other protocols', () => {
    assert.deepEqual(decide(endpoints).flowBackends, [])
  })
})

describe('F-038 a change of the zone', () => {
  it('changes the chosen endpoints', () => {
    const endpoints = [at(1, { zoneHints: ['a'] }), at(2, { zoneHints: ['b'] })]
    assert.deepEqual(lasts(decide(endpoints, {}, 'a').clusterBackends), [1])
    assert.deepEqual(lasts(decide(endpoints, {}, 'b').clusterBackends), [2])
  })
})

it('a route has the fields of its service port', () => {
  const rest: Partial<Service> = {
    ...external,
    ports: [port(443, { name: 'tls', nodePort: 30443 })],
    type: 'LoadBalancer',
    healthCheckNodePort: 30100,
    externalIPs: ['203.0.113.7'],
    loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'VIP' }],
    loadBalancerSourceRanges: ['192.0.2.0/24'],
    sessionAffinity: 'ClientIP',
    createdSeconds: 1_700_000_000,
    scheduling: { scheduler: 'mh' },
  }
  assert.deepEqual(decide([], rest), {
    key: 'default/web:tls/TCP',
    service: 'default/web',
    portName: 'tls',
    portId: 'tls/TCP',
    protocol: 'TCP',
    family: 'ipv4',
    clusterIP: '10.0.0.1',
    port: 443,
    nodePort: 30443,
    externalIPs: ['203.0.113.7'],
    loadBalancerIPs: ['198.51.100.1'],
    sourceRanges: [{ family: 'ipv4', address: '192.0.2.0', prefixLength: 24 }],
    affinitySeconds: 10800,
    isInternalLocal: false,
    isExternalLocal: true,
    isExternallyAccessible: true,
    healthCheckNodePort: 30100,
    clusterBackends: [],
    localBackends: [],
    hasEndpoints: false,
    flowBackends: [],
    createdSeconds: 1_700_000_000,
    scheduling: { scheduler: 'mh' },
    backendNodes: new Map(),
  })
})

it('a route has the nodes of its backends if its Service has weights', () => {
  const endpoints = [at(1, here), at(2, there), at(3)]
  assert.deepEqual(decide(endpoints).backendNodes, new Map())
  assert.deepEqual(
    decide(endpoints, { scheduling: { weights: 'there=2' } }).backendNodes,
    new Map([
      ['10.1.0.1', 'here'],
      ['10.1.0.2', 'there'],
    ]),
  )
})
