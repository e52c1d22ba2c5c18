import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formatCidr } from '../../../../src/address.js'
import { compileRoute, type RelayRouteSettings } from '../../../../src/layers/relay/index.js'
import { compileNodePort } from '../../../../src/layers/relay/testing.js'
import type { Route } from '../../../../src/routing/index.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

const settings: RelayRouteSettings = {
  nodePortAddresses: [ip('127.0.0.1'), ip('192.0.2.1')],
  servesAllAddresses: false,
  nodeIP: ip('192.0.2.1'),
}

/** `10.96.0.1:80 near cluster far local`, with `guarded` for source ranges. */
function listenersOf(route: Partial<Route>, compile = compileRoute): readonly string[] {
  return compile(plainRoute(route), settings).frontends.flatMap(({ listeners }) =>
    listeners.map(({ address, port, near, far, hasSourceRanges }) => {
      const guard = hasSourceRanges ? ' guarded' : ''
      return `${address}:${port} near ${near} far ${far}${guard}`
    }),
  )
}

const here = backends(8080, '10.1.0.1')
const everywhere = backends(8080, '10.1.0.1', '10.2.0.1')
const exposed = {
  isExternallyAccessible: true,
  nodePort: 30080,
  externalIPs: [ip('198.51.100.1')],
  loadBalancerIPs: [ip('203.0.113.1')],
} as const
const external = ['198.51.100.1:80', '203.0.113.1:80', '127.0.0.1:30080', '192.0.2.1:30080']

const cases: readonly {
  readonly name: string
  readonly route: Partial<Route>
  readonly listeners: readonly string[]
}[] = [
  {
    name: 'a cluster IP',
    route: { clusterBackends: everywhere },
    listeners: ['10.96.0.1:80 near cluster far cluster'],
  },
  { name: 'F-053 nothing without endpoints', route: exposed, listeners: [] },
  {
    name: 'F-071 without endpoints, for the UDP flows of those that are not ready',
    route: { protocol: 'UDP', nodePort: 30080, flowBackends: here },
    listeners: ['10.96.0.1:80', '127.0.0.1:30080', '192.0.2.1:30080'].map(
      (where) => `${where} near refuse far refuse`,
    ),
  },
  {
    name: 'SCTP: nothing',
    route: { ...exposed, protocol: 'SCTP', clusterBackends: everywhere },
    listeners: [],
  },
  {
    name: 'every external frontend, and the node port on each address',
    route: { ...exposed, clusterBackends: everywhere },
    listeners: ['10.96.0.1:80', ...external].map((where) => `${where} near cluster far cluster`),
  },
  {
    name: 'internal policy Local',
    route: { isInternalLocal: true, localBackends: here },
    listeners: ['10.96.0.1:80 near local far local'],
  },
  {
    name: 'F-054 internal policy Local without an endpoint here: nothing at the cluster IP',
    route: { ...exposed, isInternalLocal: true, clusterBackends: everywhere },
    listeners: external.map((where) => `${where} near cluster far cluster`),
  },
  {
    name: 'F-051 external policy Local: this node and its pods reach all endpoints',
    route: { ...exposed, isExternalLocal: true, clusterBackends: everywhere, localBackends: here },
    listeners: [
      '10.96.0.1:80 near cluster far cluster',
      ...external.map((where) => `${where} near cluster far local`),
    ],
  },
  {
    name: 'F-054 external policy Local without an endpoint here: clients outside are dropped',
    route: { ...exposed, isExternalLocal: true, clusterBackends: everywhere },
    listeners: [
      '10.96.0.1:80 near cluster far cluster',
      ...external.map((where) => `${where} near cluster far drop`),
    ],
  },
  {
    name: 'F-056 source ranges guard the addresses of the load balancer alone',
    route: {
      ...exposed,
      nodePort: 0,
      clusterBackends: everywhere,
      sourceRanges: [cidr('10.0.0.0/8')],
    },
    listeners: [
      '10.96.0.1:80 near cluster far cluster',
      '198.51.100.1:80 near cluster far cluster',
      '203.0.113.1:80 near cluster far cluster guarded',
    ],
  },
]

describe('listeners of a route', () => {
  for (const { name, route, listeners } of cases)
    it(name, () => assert.deepEqual(listenersOf(route), listeners))

  it('keep the claims of frontends that have no listener', () => {
    const { frontends } = compileRoute(plainRoute(exposed), settings)
    assert.equal(frontends.length, 4)
  })

  it('of the node port alone', () => {
    const route = { ...exposed, isExternalLocal: true, clusterBackends: everywhere, localBackends: here }
    assert.deepEqual(listenersOf(route, compileNodePort), [
      '127.0.0.1:30080 near cluster far local',
      '192.0.2.1:30080 near cluster far local',
    ])
  })
})

describe('the service of a route', () => {
  it('has all lists of endpoints, and the affinity', () => {
    const route = plainRoute({
      protocol: 'UDP',
      clusterBackends: everywhere,
      localBackends: here,
      flowBackends: here,
      affinitySeconds: 60,
    })
    const { service } = compileRoute(route, settings)
    assert.deepEqual(
      [service.clusterEndpoints, service.localEndpoints, service.flowEndpoints, service.affinitySeconds],
      [everywhere, here, here, 60],
    )
    assert.equal(compileRoute(plainRoute(), settings).service.affinitySeconds, undefined)
  })

  const ranges = [
    { sourceRanges: ['10.0.0.0/8'], expected: ['10.0.0.0/8'] },
    { sourceRanges: ['192.0.2.0/24'], expected: ['192.0.2.0/24', '203.0.113.1/32'] },
    { sourceRanges: [], expected: [] },
  ]
  for (const { sourceRanges, expected } of ranges) {
    it(`F-056 lets [${sourceRanges.join()}] in as [${expected.join()}]`, () => {
      const route = plainRoute({ ...exposed, sourceRanges: sourceRanges.map(cidr) })
      assert.deepEqual(compileRoute(route, settings).service.sourceRanges.map(formatCidr), expected)
    })
  }
})
