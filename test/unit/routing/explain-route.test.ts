// The rule behind each choice of a route, one table per list.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { trackFamily } from '../../support/tracked-family.js'
import {
  type Backend,
  describeFrontend,
  type EndpointChoice,
  type ExplainedRoute,
  explainFrontends,
  explainRoute,
  route,
} from '../../../src/routing/index.js'
import type { Service, SliceEndpoint } from '../../../src/source/index.js'
import { endpoint, port, service, set, slice } from '../../support/objects.js'

const here = { nodeName: 'here' }
const there = { nodeName: 'there' }
const unready = { ready: false, serving: false }
const leaving = { ready: false, serving: true, terminating: true }
const internal = { internalTrafficPolicy: 'Local' } as const
const nodePort = { type: 'NodePort', ports: [port(80, { nodePort: 30080 })] } as const
const external = { ...nodePort, externalTrafficPolicy: 'Local' } as const
const udp = { ports: [port(53, { protocol: 'UDP' })] }

const node = { name: 'here', zone: 'a' }

function inputs(endpoints: readonly SliceEndpoint[], rest: Partial<Service>): Parameters<typeof route> {
  const tracker = trackFamily('ipv4')
  tracker.apply(set(service('web', '10.0.0.1', rest)))
  const protocol = rest.ports?.[0]?.protocol ?? 'TCP'
  tracker.apply(set(slice('s', 'web', endpoints, { ports: [{ name: '', protocol, port: 8080 }] })))
  const [found] = [...tracker.take()].map((key) => tracker.servicePort(key))
  assert.ok(found !== undefined)
  return [found, tracker.endpoints(found), node]
}

function explain(endpoints: readonly SliceEndpoint[], rest: Partial<Service> = {}): ExplainedRoute {
  const [found, tracked, view] = inputs(endpoints, rest)
  return explainRoute(found, tracked, view)
}

/** A choice as text. `+`: the endpoint is chosen. */
function line(choice: EndpointChoice | undefined): string {
  return choice === undefined ? '' : `${choice.isUsed ? '+' : '-'} ${choice.rule} ${choice.text}`
}

interface EndpointCase {
  readonly name: string
  readonly list: 'cluster' | 'local' | 'flows'
  readonly service?: Partial<Service>
  /** The endpoints 10.1.0.1, 10.1.0.2 and so on, each with its expected reason. */
  readonly endpoints: readonly (readonly [Parameters<typeof endpoint>[1], string])[]
}

const noCluster =
  '- F-015 no traffic has policy Cluster: the internal policy is Local, and no frontend is external'

const endpointCases: readonly EndpointCase[] = [
  {
    name: 'F-032 ready endpoints',
    list: 'cluster',
    endpoints: [
      [{}, '+ F-032 ready'],
      [leaving, '- F-032 not ready'],
    ],
  },
  {
    name: 'F-032 the fallback to terminating endpoints',
    list: 'cluster',
    endpoints: [
      [leaving, '+ F-032 serves while it terminates, and no endpoint is ready'],
      [unready, '- F-032 neither ready nor serving while it terminates'],
    ],
  },
  {
    name: 'F-036 node hints',
    list: 'cluster',
    endpoints: [
      [{ nodeHints: ['here'] }, '+ F-036 ready, and its hints name this node'],
      [{ nodeHints: ['there'] }, '- F-036 its hints name other nodes'],
      [unready, '- F-032 not ready'],
    ],
  },
  {
    name: 'F-036 zone hints',
    list: 'cluster',
    endpoints: [
      [{ zoneHints: ['a', 'b'] }, '+ F-036 ready, and its hints name the zone of this node'],
      [{ zoneHints: ['b'] }, '- F-036 its hints name other zones'],
    ],
  },
  {
    name: 'F-036 hints on some endpoints only',
    list: 'cluster',
    endpoints: [
      [{ zoneHints: ['b'] }, '+ F-032 ready'],
      [{}, '+ F-032 ready'],
    ],
  },
  {
    name: 'F-015 only a cluster IP, with policy Local',
    list: 'cluster',
    service: internal,
    endpoints: [[here, noCluster]],
  },
  {
    name: 'F-015 a node port and a cluster IP with policy Local',
    list: 'cluster',
    service: { ...internal, ...nodePort },
    endpoints: [[there, '+ F-032 ready']],
  },
  {
    name: 'F-016 no policy Local',
    list: 'local',
    endpoints: [[here, '- F-016 no traffic has policy Local']],
  },
  {
    name: 'F-033 endpoints of this node',
    list: 'local',
    service: external,
    endpoints: [
      [here, '+ F-033 on this node and ready'],
      [there, '- F-033 not on this node'],
      [{}, '- F-033 not on this node'],
      [{ ...here, ...leaving }, '- F-033 on this node, but not ready'],
    ],
  },
  {
    name: 'F-033 the fallback to terminating endpoints of this node',
    list: 'local',
    service: internal,
    endpoints: [
      [
        { ...here, ...leaving },
        '+ F-033 serves on this node while it terminates, and no endpoint here is ready',
      ],
      [{ ...here, ...unready }, '- F-033 on this node, but neither ready nor serving while it terminates'],
      [there, '- F-033 not on this node'],
    ],
  },
  {
    name: 'F-071 endpoints that keep their UDP flows',
    list: 'flows',
    service: udp,
    endpoints: [
      [leaving, '+ F-071 serves'],
      [unready, '- F-071 does not serve, while another endpoint does'],
    ],
  },
  {
    name: 'F-071 UDP flows while no endpoint serves',
    list: 'flows',
    service: udp,
    endpoints: [[unready, '+ F-071 no endpoint serves']],
  },
  { name: 'F-071 no flows of TCP', list: 'flows', endpoints: [[{}, '']] },
]

describe('the reason for an endpoint', () => {
  for (const { name, list, service: rest, endpoints } of endpointCases) {
    it(name, () => {
      const written = endpoints.map(([fields], i) => endpoint(`10.1.0.${i + 1}`, fields))
      assert.deepEqual(
        explain(written, rest).endpoints.map((reasons) => line(reasons[list])),
        endpoints.map(([, expected]) => expected),
      )
    })
  }
})

interface FrontendCase {
  readonly name: string
  readonly service?: Partial<Service>
  readonly endpoints: readonly Parameters<typeof endpoint>[1][]
  readonly expected: readonly string[]
}

const cluster = 'F-032 endpoints of the cluster serve it'
const onNode = 'F-033 endpoints of this node serve it'
const refused = 'F-053 no endpoint can serve it'
const dropped = 'F-054 only endpoints of other nodes can serve it'
const elsewhere = 'F-015 pods and this node reach the endpoints of policy Cluster'

const frontendCases: readonly FrontendCase[] = [
  {
    name: 'every kind of frontend',
    service: {
      type: 'LoadBalancer',
      ports: [port(80, { nodePort: 30080 })],
      externalIPs: ['192.0.2.1'],
      loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'VIP' }],
    },
    endpoints: [{}],
    expected: [
      `tcp 10.0.0.1:80 serve: F-007 cluster IP; F-013 internalTrafficPolicy is Cluster; ${cluster}`,
      `tcp 192.0.2.1:80 serve: F-010 external IP; F-012 externalTrafficPolicy is Cluster; ${cluster}`,
      `tcp 198.51.100.1:80 serve: F-009 load-balancer IP; F-012 externalTrafficPolicy is Cluster; ${cluster}`,
      `tcp node port 30080 serve: F-008 node port; F-012 externalTrafficPolicy is Cluster; ${cluster}`,
    ],
  },
  {
    name: 'policy Local with an endpoint here',
    service: { ...external, ...internal },
    endpoints: [here, there],
    expected: [
      `tcp 10.0.0.1:80 serve: F-007 cluster IP; F-013 internalTrafficPolicy is Local; ${onNode}`,
      `tcp node port 30080 serve: F-008 node port; F-012 externalTrafficPolicy is Local; ${onNode}; ${elsewhere}`,
    ],
  },
  {
    name: 'policy Local with endpoints on other nodes',
    service: { ...external, ...internal },
    endpoints: [there],
    expected: [
      `tcp 10.0.0.1:80 drop: F-007 cluster IP; F-013 internalTrafficPolicy is Local; ${dropped}`,
      `tcp node port 30080 drop: F-008 node port; F-012 externalTrafficPolicy is Local; ${dropped}; ${elsewhere}`,
    ],
  },
  {
    name: 'no usable endpoint',
    service: external,
    endpoints: [{ ...here, ...unready }],
    expected: [
      `tcp 10.0.0.1:80 refuse: F-007 cluster IP; F-013 internalTrafficPolicy is Cluster; ${refused}`,
      `tcp node port 30080 refuse: F-008 node port; F-012 externalTrafficPolicy is Local; ${refused}`,
    ],
  },
]

describe('the reasons for a frontend', () => {
  for (const { name, service: rest, endpoints, expected } of frontendCases) {
    it(name, () => {
      const written = endpoints.map((fields, i) => endpoint(`10.1.0.${i + 1}`, fields))
      const lines = explainFrontends(explain(written, rest).route).map(({ frontend, verdict, reasons }) => {
        const texts = reasons.map(({ rule, text }) => `${rule} ${text}`)
        return `${describeFrontend(frontend)} ${verdict}: ${texts.join('; ')}`
      })
      assert.deepEqual(lines, expected)
    })
  }
})

const anyEndpoint = fc
  .record({
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
    nodeName: fc.constantFrom('here', 'there', undefined),
    zoneHints: fc.subarray(['a', 'b']),
    nodeHints: fc.subarray(['here', 'there']),
  })
  .map(({ nodeName, ...fields }) => ({ ...fields, ...(nodeName === undefined ? {} : { nodeName }) }))
const anyService = fc.constantFrom({}, internal, nodePort, external, udp, { ...external, ...internal })

function idsOf(backends: readonly Backend[]): readonly string[] {
  return backends.map(({ address, port: number }) => `${address} ${number}`)
}

it('an explained route chooses the endpoints of the route, for any endpoints', () => {
  const found = { chosen: 0, dropped: 0 }
  fc.assert(
    fc.property(fc.array(anyEndpoint, { maxLength: 6 }), anyService, (fields, rest) => {
      const [from, tracked, view] = inputs(
        fields.map((one, i) => endpoint(`10.1.0.${i + 1}`, one)),
        rest,
      )
      const plain = route(from, tracked, view)
      const { route: same, endpoints } = explainRoute(from, tracked, view)
      assert.deepEqual(same, plain)
      for (const [list, expected] of [
        ['cluster', plain.clusterBackends],
        ['local', plain.localBackends],
        ['flows', plain.flowBackends],
      ] as const) {
        const chosen = endpoints.filter((reasons) => reasons[list]?.isUsed === true)
        assert.deepEqual(idsOf(chosen.map((reasons) => reasons.endpoint)), idsOf(expected))
        for (const reasons of endpoints) assert.notEqual(reasons[list]?.text, '')
        found.chosen += chosen.length
        found.dropped += endpoints.length - chosen.length
      }
    }),
  )
  assert.ok(found.chosen > 50 && found.dropped > 50, JSON.stringify(found))
})
