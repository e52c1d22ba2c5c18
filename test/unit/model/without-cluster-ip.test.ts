// Services of manifests without a cluster IP: the frontends that they have are served, in the families that they are of.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { trackFamily } from '../../support/tracked-family.js'
import { describeFrontend, frontendsOf } from '../../../src/routing/index.js'
import type { Service } from '../../../src/source/index.js'
import { port, service, set } from '../../support/objects.js'

interface Read {
  /** In the order of `describeFrontend`. */
  readonly frontends: readonly string[]
  readonly problems: readonly string[]
  readonly servedAt: string | undefined
}

const missing =
  'spec.clusterIP is missing: nothing is programmed; write an address, a nodePort or externalIPs, or None for a headless Service'

const nothing: Read = { frontends: [], problems: [], servedAt: undefined }
const reported: Read = { ...nothing, problems: [missing] }

function served(servedAt: string, ...frontends: readonly string[]): Read {
  return { ...nothing, frontends, servedAt }
}

function read(own: Service, family: 'ipv4' | 'ipv6', allowsExternalIPs = true): Read {
  let [problems, servedAt]: readonly [readonly string[], string?] = [[]]
  const tracker = trackFamily(
    family,
    (_object, found = [], places) => {
      problems = found
      servedAt = places
    },
    { allowsExternalIPs },
  )
  tracker.apply(set(own))
  const ports = [...tracker.servicePorts()]
  assert.ok(ports.every((each) => each.clusterIP === undefined && each.family === family))
  return { frontends: ports.flatMap(frontendsOf).map(describeFrontend), problems, servedAt }
}

function bare(rest: Partial<Service> = {}): Service {
  return service('web', '', { clusterIPs: [], ...rest })
}

const nodePort = { type: 'NodePort', ports: [port(80, { nodePort: 30080 })] } as const
const externalIPs = ['192.0.2.1']
const bothFamilies = ['192.0.2.1', '2001:db8::1']
const manyIPs = Array.from({ length: 50 }, (_, i) => `192.0.2.${i + 1}`)
const manyFrontends = manyIPs.map((address) => `tcp ${address}:80`)
const atNodePort = served('node port 30080', 'tcp node port 30080')

describe('a Service without a cluster IP', () => {
  const cases: readonly (readonly [string, Service, Read, Read])[] = [
    ['has nothing else: it is reported once', bare(), reported, nothing],
    ['of IPv6 has nothing else: IPv6 reports it', bare({ ipFamilies: ['IPv6'] }), nothing, reported],
    ['a node port alone is of IPv4', bare(nodePort), atNodePort, nothing],
    [
      'a node port is of the families named',
      bare({ ...nodePort, ipFamilies: ['IPv6'] }),
      nothing,
      atNodePort,
    ],
    [
      'a node port of two families',
      bare({ ...nodePort, ipFamilies: ['IPv6', 'IPv4'] }),
      atNodePort,
      atNodePort,
    ],
    [
      'an external IP is of its own family',
      bare({ externalIPs }),
      served('external IP 192.0.2.1', 'tcp 192.0.2.1:80'),
      nothing,
    ],
    [
      'external IPs of both families, and a node port with them',
      bare({ ...nodePort, externalIPs: bothFamilies }),
      served('external IP 192.0.2.1, node port 30080', 'tcp 192.0.2.1:80', 'tcp node port 30080'),
      served('external IP 2001:db8::1, node port 30080', 'tcp [2001:db8::1]:80', 'tcp node port 30080'),
    ],
    [
      'two external IPs',
      bare({ externalIPs: ['192.0.2.1', '192.0.2.2', '192.0.2.1'] }),
      served('external IPs 192.0.2.1 and 192.0.2.2', 'tcp 192.0.2.1:80', 'tcp 192.0.2.2:80'),
      nothing,
    ],
    [
      'three external IPs',
      bare({ externalIPs: manyIPs.slice(0, 3) }),
      served('external IPs 192.0.2.1, 192.0.2.2 and 192.0.2.3', ...manyFrontends.slice(0, 3)),
      nothing,
    ],
    [
      'many external IPs, of which the first are named',
      bare({ externalIPs: manyIPs }),
      served(`external IPs ${manyIPs.slice(0, 8).join(', ')} and 42 more`, ...manyFrontends),
      nothing,
    ],
    [
      "a load balancer's address in mode VIP, not one in mode Proxy",
      bare({
        type: 'LoadBalancer',
        loadBalancerIngress: [
          { ip: '192.0.2.9', ipMode: 'VIP' },
          { ip: '192.0.2.8', ipMode: 'Proxy' },
        ],
      }),
      served('load-balancer IP 192.0.2.9', 'tcp 192.0.2.9:80'),
      nothing,
    ],
    [
      'the second family alone has frontends: the first is silent',
      bare({ ipFamilies: ['IPv4', 'IPv6'], externalIPs: ['2001:db8::1'] }),
      nothing,
      served('external IP 2001:db8::1', 'tcp [2001:db8::1]:80'),
    ],
    [
      'external IPs of another family than the one named serve nothing',
      bare({ ipFamilies: ['IPv4'], externalIPs: ['2001:db8::1'] }),
      reported,
      nothing,
    ],
    [
      'a port without a node port has no frontend',
      bare({
        type: 'NodePort',
        ports: [port(80, { name: 'a', nodePort: 30080 }), port(81, { name: 'b' })],
      }),
      atNodePort,
      nothing,
    ],
    [
      'unreadable addresses are reported beside',
      bare({ ...nodePort, externalIPs: ['192.0.2'] }),
      { ...atNodePort, problems: ['spec.externalIPs: "192.0.2" is not an IP address'] },
      nothing,
    ],
    [
      'unreadable addresses alone',
      bare({ externalIPs: ['192.0.2'] }),
      { ...reported, problems: [missing, 'spec.externalIPs: "192.0.2" is not an IP address'] },
      nothing,
    ],
    [
      'ExternalName is left alone',
      bare({ ...nodePort, type: 'ExternalName', externalIPs }),
      nothing,
      nothing,
    ],
    [
      'headless is left alone',
      { ...bare({ ...nodePort, externalIPs }), clusterIP: 'None' },
      nothing,
      nothing,
    ],
  ]
  for (const [name, own, ipv4, ipv6] of cases) {
    it(name, () => assert.deepEqual([read(own, 'ipv4'), read(own, 'ipv6')], [ipv4, ipv6]))
  }

  it('has no frontends where external IPs are not allowed', () => {
    assert.deepEqual(read(bare({ externalIPs }), 'ipv4', false), reported)
    assert.deepEqual(read(bare({ ...nodePort, externalIPs }), 'ipv4', false), atNodePort)
  })

  it('does not obey internalTrafficPolicy', () => {
    for (const [clusterIP, isInternalLocal] of [
      ['', false],
      ['10.96.0.1', true],
    ] as const) {
      const tracker = trackFamily('ipv4')
      tracker.apply(set(service('web', clusterIP, { ...nodePort, internalTrafficPolicy: 'Local' })))
      assert.deepEqual(
        [...tracker.servicePorts()].map((each) => each.isInternalLocal),
        [isInternalLocal],
      )
    }
  })

  it('is reported until it has one, is headless or is gone', () => {
    const states: unknown[] = []
    const tracker = trackFamily('ipv4', (_object, problems, servedAt) => states.push([problems, servedAt]))
    const withOne = service('web', '10.96.0.1', nodePort)
    for (const own of [bare(nodePort), withOne, withOne, bare(nodePort), service('web', 'None'), bare()])
      tracker.apply(set(own))
    assert.deepEqual(states, [
      [[], 'node port 30080'],
      [[], undefined],
      [[], 'node port 30080'],
      [undefined, undefined],
      [[missing], undefined],
    ])
  })
})
