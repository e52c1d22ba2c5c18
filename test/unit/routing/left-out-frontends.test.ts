// Issue 35, A2: the agent was cut off from the API server, and its health server replaced, by external IPs of a tenant's Service.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { trackFamily } from '../../support/tracked-family.js'
import { NodeTracker, type ProtectedPlaces } from '../../../src/node/index.js'
import {
  decide,
  dependsOnMachine,
  describeFrontend,
  leftOutFrontends,
  type Route,
} from '../../../src/routing/index.js'
import { port, service, set } from '../../support/objects.js'
import { ip, plainRoute } from '../../support/routes.js'

const machine = [ip('192.0.2.10')]
const places: ProtectedPlaces = {
  apiServer: [
    { address: ip('192.0.2.1'), port: 6443 },
    { address: ip('192.0.2.10'), port: 6444 },
  ],
  agent: [
    { server: 'healthz', address: 'all', port: 10256 },
    { server: 'metrics', address: ip('127.0.0.1'), port: 10249 },
  ],
}

/** Knows the victim: node port 30080, health check port 30100; and two Services with health check port 30200. */
const services = trackFamily('ipv4')
services.apply(
  set(
    service('victim', '10.96.0.99', {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 30_100,
      ports: [port(80, { nodePort: 30_080 })],
    }),
  ),
)
for (const [name, createdSeconds] of [
  ['older', 1],
  ['younger', 2],
] as const)
  services.apply(
    set(
      service(name, `10.96.1.${createdSeconds}`, {
        type: 'LoadBalancer',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 30_200,
        createdSeconds,
      }),
    ),
  )
const taken = { places, services }

const cases: readonly {
  readonly name: string
  readonly route: Partial<Route>
  readonly leftOut: readonly string[]
}[] = [
  {
    name: 'the API server at an external IP',
    route: { port: 6443, externalIPs: [ip('192.0.2.1'), ip('203.0.113.1')] },
    leftOut: ['tcp 192.0.2.1:6443 of the API server'],
  },
  {
    name: 'the API server at an address of a load balancer',
    route: { port: 6443, loadBalancerIPs: [ip('192.0.2.1')] },
    leftOut: ['tcp 192.0.2.1:6443 of the API server'],
  },
  {
    name: 'the API server at a cluster IP',
    route: { port: 6443, clusterIP: ip('192.0.2.1') },
    leftOut: ['tcp 192.0.2.1:6443 of the API server'],
  },
  {
    name: 'the API server on this machine at a node port',
    route: { nodePort: 6444 },
    leftOut: ['tcp node port 6444 of the API server'],
  },
  { name: 'nothing at the node port of an API server elsewhere', route: { nodePort: 6443 }, leftOut: [] },
  {
    name: 'nothing at another port of the API server',
    route: { port: 80, externalIPs: [ip('192.0.2.1')] },
    leftOut: [],
  },
  {
    name: 'nothing of another protocol',
    route: { protocol: 'UDP', port: 6443, externalIPs: [ip('192.0.2.1')], nodePort: 10256 },
    leftOut: [],
  },
  {
    name: 'nothing of default/kubernetes',
    route: { service: 'default/kubernetes', port: 6443, externalIPs: [ip('192.0.2.1')], nodePort: 6444 },
    leftOut: [],
  },
  {
    name: 'the health server at an address of this machine',
    route: { port: 10256, externalIPs: [ip('192.0.2.10'), ip('192.0.2.11')] },
    leftOut: ["tcp 192.0.2.10:10256 of the agent's healthz server"],
  },
  {
    name: 'the health server at a loopback address',
    route: { port: 10256, externalIPs: [ip('127.0.0.1')] },
    leftOut: ["tcp 127.0.0.1:10256 of the agent's healthz server"],
  },
  {
    name: 'nothing at an address of this machine where the metrics server does not listen',
    route: { port: 10249, externalIPs: [ip('192.0.2.10')] },
    leftOut: [],
  },
  {
    name: 'the servers at node ports',
    route: { nodePort: 10249 },
    leftOut: ["tcp node port 10249 of the agent's metrics server"],
  },
  {
    name: 'the health server at the health check port of a Service',
    route: { nodePort: 30080, healthCheckNodePort: 10256 },
    leftOut: ["health check tcp node port 10256 of the agent's healthz server"],
  },
  {
    name: 'the node port of another Service at an external IP',
    route: { port: 30_080, externalIPs: [ip('192.0.2.10'), ip('192.0.2.11')] },
    leftOut: ['tcp 192.0.2.10:30080 of default/victim:/TCP'],
  },
  {
    name: 'the node port of another Service at an address of a load balancer, and at a loopback address',
    route: { port: 30_080, externalIPs: [ip('127.0.0.1')], loadBalancerIPs: [ip('192.0.2.10')] },
    leftOut: ['tcp 127.0.0.1:30080 of default/victim:/TCP', 'tcp 192.0.2.10:30080 of default/victim:/TCP'],
  },
  {
    name: 'the health check port of another Service',
    route: { port: 30_100, externalIPs: [ip('192.0.2.10')] },
    leftOut: ['tcp 192.0.2.10:30100 of default/victim:/TCP'],
  },
  {
    name: 'the health check port of another Service as its own',
    route: { protocol: 'UDP', nodePort: 30_081, healthCheckNodePort: 30_100 },
    leftOut: ['health check tcp node port 30100 of default/victim'],
  },
  {
    name: 'nothing at a health check port that another Service had and it gets, as the older one',
    route: { service: 'default/older', healthCheckNodePort: 30_200 },
    leftOut: [],
  },
  {
    name: 'nothing at a node port with the number of a health check port',
    route: { nodePort: 30_100 },
    leftOut: [],
  },
  {
    name: 'nothing at the number of a node port of another protocol',
    route: { protocol: 'UDP', port: 30_080, externalIPs: [ip('192.0.2.10')] },
    leftOut: [],
  },
  {
    name: 'nothing at the number of a health check port of another protocol',
    route: { protocol: 'UDP', port: 30_100, externalIPs: [ip('192.0.2.10')] },
    leftOut: [],
  },
  {
    name: 'nothing at the number of a node port of its own Service',
    route: { service: 'default/victim', port: 30_080, externalIPs: [ip('192.0.2.10')] },
    leftOut: [],
  },
  {
    name: 'nothing at a cluster IP with the number of a node port',
    route: { clusterIP: ip('192.0.2.10'), port: 30_080, externalIPs: [ip('192.0.2.11')] },
    leftOut: [],
  },
]

function rest(route: Partial<Route>): Route | undefined {
  return decide(plainRoute(route), [], new NodeTracker('node-a').facts, { taken, machine }).route
}

describe('a Service does not get', () => {
  for (const { name, route, leftOut } of cases)
    it(name, () => {
      const found = leftOutFrontends(plainRoute(route), taken, machine)
      assert.deepEqual(
        found.map(({ frontend, holder }) => `${describeFrontend(frontend)} of ${holder.name}`),
        leftOut,
      )
    })

  it('any frontend with the port of a server at all addresses, where the mode listens itself', () => {
    // Before, a Service in userspace mode with port 10256 kept the health server from its start: EADDRINUSE.
    const tracker = new NodeTracker('node-a', undefined, places.agent)
    tracker.noteListeningMode()
    const listening = { services, places: { ...places, agent: tracker.facts.places.agent } }
    const found = leftOutFrontends(
      plainRoute({ port: 10256, clusterIP: ip('10.96.0.66') }),
      listening,
      machine,
    )
    assert.deepEqual(
      found.map(({ frontend, holder }) => `${describeFrontend(frontend)} of ${holder.name}`),
      ["tcp 10.96.0.66:10256 of the agent's healthz server"],
    )
    assert.deepEqual(leftOutFrontends(plainRoute({ port: 10249 }), listening, machine), [])
  })

  it('more than the one frontend: the others stay', () => {
    const route = { port: 6443, externalIPs: [ip('192.0.2.1'), ip('203.0.113.1')], nodePort: 30080 }
    const kept = rest(route)
    assert.deepEqual([kept?.externalIPs, kept?.nodePort], [[ip('203.0.113.1')], 30080])
  })

  it('a health check port of the agent, and keeps its node port', () => {
    const kept = rest({ nodePort: 30080, healthCheckNodePort: 10256 })
    assert.deepEqual([kept?.nodePort, kept?.healthCheckNodePort], [30080, 0])
  })

  it('anything at the place of the API server as its cluster IP', () =>
    assert.equal(rest({ port: 6443, clusterIP: ip('192.0.2.1'), nodePort: 30080 }), undefined))

  it('nothing if it meets nothing', () => {
    const whole = plainRoute({ nodePort: 30080 })
    const decision = decide(whole, [], new NodeTracker('node-a').facts, { taken, machine })
    assert.deepEqual(decision.leftOut, [])
    assert.equal(decision.route?.nodePort, 30080)
  })
})

describe('of several Services with one node port', () => {
  it('the oldest one keeps its external IP with this number', () => {
    const both = trackFamily('ipv4')
    const ports = [port(30_080, { nodePort: 30_080 })]
    const externalIPs = ['192.0.2.10']
    for (const [name, createdSeconds] of [
      ['a', 2],
      ['b', 1],
    ] as const)
      both.apply(set(service(name, `10.96.0.${createdSeconds}`, { ports, externalIPs, createdSeconds })))
    const found = [...both.servicePorts()].map((each) =>
      leftOutFrontends(each, { places, services: both }, machine).map(
        ({ frontend, holder }) => `${each.service}: ${describeFrontend(frontend)} of ${holder.name}`,
      ),
    )
    assert.deepEqual(found.flat(), ['default/a: tcp 192.0.2.10:30080 of default/b:/TCP'])
  })
})

describe('the machine is read', () => {
  it('for ports that the agent serves, and node ports of the API server', () => {
    assert.ok(dependsOnMachine(plainRoute({ port: 10256, externalIPs: [ip('192.0.2.10')] }), taken))
    assert.ok(dependsOnMachine(plainRoute({ nodePort: 6443 }), taken))
  })

  it('for external addresses with the number of the node port of another Service', () => {
    assert.ok(dependsOnMachine(plainRoute({ port: 30_080, externalIPs: [ip('192.0.2.11')] }), taken))
    assert.ok(dependsOnMachine(plainRoute({ port: 30_100, loadBalancerIPs: [ip('192.0.2.11')] }), taken))
    assert.ok(!dependsOnMachine(plainRoute({ port: 30_080 }), taken))
  })

  it('not for addresses of the API server, which many Services meet by number', () =>
    assert.ok(!dependsOnMachine(plainRoute({ port: 6443, externalIPs: [ip('192.0.2.1')] }), taken)))
})
