import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { servicePortKey } from '../../../../src/model/testing.js'
import { describeFrontend, type Route } from '../../../../src/routing/index.js'
import { UdpFrontends } from '../../../../src/layers/shared/conntrack-cleaner.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

const key = servicePortKey('kube-system/dns', 'dns/UDP')
const dnsIP = ip('10.96.0.10')

function dns(rest: Partial<Route> = {}): Route {
  return plainRoute({ key, protocol: 'UDP', clusterIP: dnsIP, port: 53, ...rest })
}

const two = { flowBackends: backends(53, '10.244.1.5', '10.244.1.6') }
const one = { flowBackends: backends(53, '10.244.1.5') }
const everywhere = {
  nodePort: 30053,
  externalIPs: [ip('192.0.2.1')],
  loadBalancerIPs: [ip('198.51.100.1')],
}
const everyFrontend = ['udp 10.96.0.10:53', 'udp 192.0.2.1:53', 'udp 198.51.100.1:53', 'udp node port 30053']

interface Case {
  readonly name: string
  readonly former: Route | undefined
  readonly next: Route | undefined
  /** Frontends with the number of backends that their flows may use. */
  readonly stale: Readonly<Record<string, number>>
}

const cases: readonly Case[] = [
  { name: 'nothing changed', former: dns(two), next: dns(two), stale: {} },
  {
    name: 'an equal list of backends in another array',
    former: dns(one),
    next: dns({ flowBackends: backends(53, '10.244.1.5') }),
    stale: {},
  },
  { name: 'an endpoint was added to others', former: dns(one), next: dns(two), stale: {} },
  { name: 'an endpoint left', former: dns(two), next: dns(one), stale: { 'udp 10.96.0.10:53': 1 } },
  {
    name: 'an endpoint moved to another port',
    former: dns(one),
    next: dns({ flowBackends: backends(5353, '10.244.1.5') }),
    stale: { 'udp 10.96.0.10:53': 1 },
  },
  {
    name: 'an endpoint left a Service with every kind of frontend',
    former: dns({ ...two, ...everywhere }),
    next: dns({ ...one, ...everywhere }),
    stale: Object.fromEntries(everyFrontend.map((frontend) => [frontend, 1])),
  },
  { name: 'the last endpoint was removed', former: dns(one), next: dns(), stale: { 'udp 10.96.0.10:53': 0 } },
  { name: 'the first endpoint was added', former: dns(), next: dns(one), stale: { 'udp 10.96.0.10:53': 1 } },
  { name: 'no endpoint before and after', former: dns(), next: dns({ nodePort: 0 }), stale: {} },
  { name: 'the Service is new', former: undefined, next: dns(one), stale: { 'udp 10.96.0.10:53': 1 } },
  { name: 'the Service is deleted', former: dns(two), next: undefined, stale: { 'udp 10.96.0.10:53': 0 } },
  {
    name: 'a frontend was added',
    former: dns(two),
    next: dns({ ...two, nodePort: 30053 }),
    stale: { 'udp node port 30053': 2 },
  },
  {
    name: 'a frontend was removed',
    former: dns({ ...two, externalIPs: [ip('192.0.2.1')] }),
    next: dns(two),
    stale: { 'udp 192.0.2.1:53': 0 },
  },
  {
    name: 'the port changed',
    former: dns(one),
    next: dns({ ...one, port: 54 }),
    stale: { 'udp 10.96.0.10:53': 0, 'udp 10.96.0.10:54': 1 },
  },
  {
    name: 'an endpoint of a TCP port was removed',
    former: plainRoute({ key, clusterBackends: backends(80, '10.244.1.5') }),
    next: plainRoute({ key }),
    stale: {},
  },
  {
    name: 'an SCTP port was removed',
    former: plainRoute({ key, protocol: 'SCTP', clusterBackends: backends(80, '10.244.1.5') }),
    next: undefined,
    stale: {},
  },
]

function stale(frontends: UdpFrontends, next: Route | undefined, of = key): Readonly<Record<string, number>> {
  const changed = frontends.set(of, next)
  return Object.fromEntries(
    changed.map((frontend) => [describeFrontend(frontend), frontends.flowsOf(frontend).backends.length]),
  )
}

describe('the frontends with stale flows after a change', () => {
  for (const { name, former, next, stale: wanted } of cases) {
    it(name, () => {
      const frontends = new UdpFrontends()
      frontends.set(key, former)
      assert.deepEqual(stale(frontends, next), wanted)
    })
  }

  it('are all frontends at the first check', () => {
    const frontends = new UdpFrontends()
    frontends.set(key, dns({ ...one, ...everywhere }))
    frontends.set(servicePortKey('default/web', '/TCP'), plainRoute())
    assert.deepEqual(frontends.all.map(describeFrontend), everyFrontend)
    frontends.set(key, undefined)
    assert.deepEqual(frontends.all, [])
  })

  it('are only UDP', () => {
    const frontends = new UdpFrontends()
    const [frontend] = frontends.set(key, dns(one))
    assert.ok(frontend !== undefined)
    assert.deepEqual(frontends.flowsOf(frontend), {
      protocol: 'udp',
      address: dnsIP,
      port: 53,
      backends: one.flowBackends,
    })
  })

  describe('a frontend that moves to another Service', () => {
    const otherKey = servicePortKey('kube-system/other', 'dns/UDP')
    const shared = [ip('192.0.2.1')]
    const former = dns({ ...one, externalIPs: shared })
    const alone = dns(one)
    const next = dns({
      key: otherKey,
      clusterIP: ip('10.96.0.11'),
      externalIPs: shared,
      flowBackends: backends(53, '10.244.1.7', '10.244.1.8'),
    })

    it('has the endpoints of its new owner, if that one is set first', () => {
      const frontends = new UdpFrontends()
      frontends.set(key, former)
      assert.deepEqual(stale(frontends, next, otherKey), { 'udp 10.96.0.11:53': 2, 'udp 192.0.2.1:53': 2 })
      assert.deepEqual(stale(frontends, alone), {})
      assert.deepEqual(stale(frontends, undefined), { 'udp 10.96.0.10:53': 0 })
    })

    it('has the endpoints of its new owner, if the former one is set first', () => {
      const frontends = new UdpFrontends()
      frontends.set(key, former)
      assert.deepEqual(stale(frontends, alone), { 'udp 192.0.2.1:53': 0 })
      assert.deepEqual(stale(frontends, next, otherKey), { 'udp 10.96.0.11:53': 2, 'udp 192.0.2.1:53': 2 })
    })
  })
})
