// The service ports of a Service: one table per rule of kube-proxy.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formatCidr, type IpFamily } from '../../../src/address.js'
import type { ServicePort } from '../../../src/model/index.js'
import { trackFamily, type TrackedFamily } from '../../support/tracked-family.js'
import type { Service } from '../../../src/source/index.js'
import type { LoadBalancerIngress } from '../../../src/source/testing.js'
import { port, remove, service, set } from '../../support/objects.js'

/** A Service of both families. */
const dual = { clusterIPs: ['10.0.0.1', 'fd00::1'], ipFamilies: ['IPv4', 'IPv6'] as const }
const otherProxy = { labels: { 'service.kubernetes.io/service-proxy-name': '' } }

function portsOf(tracker: TrackedFamily): readonly ServicePort[] {
  tracker.markAll()
  return [...tracker.take()].map((key) => tracker.servicePort(key)).filter((found) => found !== undefined)
}

/** The ports and the problems of one Service in a family. */
function read(
  rest: Partial<Service>,
  family: IpFamily = 'ipv4',
  rules = { allowsExternalIPs: true },
): { readonly ports: readonly ServicePort[]; readonly problems: readonly string[] } {
  const problems: string[] = []
  const tracker = trackFamily(family, (_object, found) => problems.push(...(found ?? [])), rules)
  tracker.apply(set(service('web', '10.0.0.1', rest)))
  return { ports: portsOf(tracker), problems }
}

/** The first port of a Service without problems. */
function readOne(rest: Partial<Service>, family: IpFamily = 'ipv4', allowsExternalIPs = true): ServicePort {
  const { ports, problems } = read(rest, family, { allowsExternalIPs })
  const [first] = ports
  assert.ok(first !== undefined)
  assert.deepEqual(problems, [])
  return first
}

function vip(ip: string): LoadBalancerIngress {
  return { ip, ipMode: 'VIP' }
}

describe('F-001, F-020 a service port', () => {
  it('exists for each port name and protocol, also when port numbers are equal', () => {
    const ports = [
      port(53, { name: 'dns', protocol: 'UDP', nodePort: 30053 }),
      port(53, { name: 'dns', protocol: 'TCP', nodePort: 30053 }),
      port(53, { name: 'sctp', protocol: 'SCTP' }),
    ]
    const found = read({ ports }).ports
    assert.deepEqual(
      found.map(({ key, portName, protocol, nodePort }) => [String(key), portName, protocol, nodePort]),
      [
        ['default/web:dns/UDP', 'dns', 'UDP', 30053],
        ['default/web:dns/TCP', 'dns', 'TCP', 30053],
        ['default/web:sctp/SCTP', 'sctp', 'SCTP', 0],
      ],
    )
  })
})

describe('F-005 the label service-proxy-name', () => {
  it('removes the ports of a Service when added, and restores them when removed', () => {
    const tracker = trackFamily('ipv4')
    const count = (object: Service): number => {
      tracker.apply(set(object))
      assert.equal(tracker.take().size, 1)
      return portsOf(tracker).length
    }
    assert.equal(count(service('web', '10.0.0.1')), 1)
    assert.equal(count(service('web', '10.0.0.1', otherProxy)), 0)
    assert.equal(count(service('web', '10.0.0.1')), 1)
  })
})

describe('F-004, F-009 to F-011, F-014 frontends', () => {
  interface Case {
    readonly name: string
    readonly service: Partial<Service>
    readonly family?: IpFamily
    readonly allowsExternalIPs?: boolean
    readonly externalIPs?: readonly string[]
    readonly loadBalancerIPs?: readonly string[]
    readonly isAccessible: boolean
  }
  const cases: readonly Case[] = [
    { name: 'F-014 a cluster IP alone is not externally accessible', service: {}, isAccessible: false },
    {
      name: 'F-014 a node port is externally accessible',
      service: { ports: [port(80, { nodePort: 30080 })] },
      isAccessible: true,
    },
    {
      name: 'F-010 external IPs of this family in canonical form, without blank ones',
      service: { ...dual, externalIPs: ['203.0.113.007', 'fd00::0:9', '', ' '] },
      externalIPs: ['203.0.113.7'],
      isAccessible: true,
    },
    {
      name: 'F-010, F-021 external IPs of the other family',
      family: 'ipv6',
      service: { ...dual, externalIPs: ['203.0.113.7', 'fd00::0:9'] },
      externalIPs: ['fd00::9'],
      isAccessible: true,
    },
    {
      name: 'F-010 external IPs without duplicates',
      service: { externalIPs: ['203.0.113.7', '203.0.113.8', '203.0.113.007'] },
      externalIPs: ['203.0.113.7', '203.0.113.8'],
      isAccessible: true,
    },
    {
      name: 'F-009 load-balancer VIPs count for every type of Service',
      service: { ...dual, loadBalancerIngress: [vip('198.51.100.1'), vip('fd00::2'), vip('198.51.100.02')] },
      loadBalancerIPs: ['198.51.100.1', '198.51.100.2'],
      isAccessible: true,
    },
    {
      name: 'F-009 an ingress with ipMode Proxy is ignored',
      service: { type: 'LoadBalancer', loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'Proxy' }] },
      isAccessible: false,
    },
    {
      name: 'F-009, F-010 the cluster IP is no second frontend; an external IP may also be a load-balancer VIP',
      service: {
        externalIPs: ['10.0.0.1', '203.0.113.7'],
        loadBalancerIngress: [vip('203.0.113.7'), vip('10.0.0.1'), vip('198.51.100.1')],
      },
      externalIPs: ['203.0.113.7'],
      loadBalancerIPs: ['203.0.113.7', '198.51.100.1'],
      isAccessible: true,
    },
    {
      name: 'F-014 addresses of only the other family are not externally accessible',
      service: { ...dual, externalIPs: ['fd00::9'], loadBalancerIngress: [vip('fd00::2')] },
      isAccessible: false,
    },
    {
      name: 'F-011 disallowed external IPs are no frontends, but the Service is externally accessible; a VIP with the same address stays',
      allowsExternalIPs: false,
      service: {
        externalIPs: ['203.0.113.7', '198.51.100.1'],
        loadBalancerIngress: [vip('198.51.100.1')],
      },
      loadBalancerIPs: ['198.51.100.1'],
      isAccessible: true,
    },
  ]
  for (const { name, service: rest, family, allowsExternalIPs, isAccessible, ...expected } of cases) {
    it(name, () => {
      const found = readOne(rest, family, allowsExternalIPs)
      assert.deepEqual(found.externalIPs, expected.externalIPs ?? [])
      assert.deepEqual(found.loadBalancerIPs, expected.loadBalancerIPs ?? [])
      assert.equal(found.isExternallyAccessible, isAccessible)
    })
  }
})

describe('F-012, F-013 traffic policies', () => {
  const externalTrafficPolicy = 'Local' as const
  const cases: readonly (readonly [string, Partial<Service>, { readonly external: boolean }])[] = [
    ['ClusterIP', {}, { external: false }],
    ['ClusterIP with external IPs', { externalIPs: ['203.0.113.7'] }, { external: true }],
    ['ClusterIP with external IPs of the other family', { externalIPs: ['fd00::9'] }, { external: true }],
    ['NodePort', { type: 'NodePort', ports: [port(80, { nodePort: 30080 })] }, { external: true }],
    ['LoadBalancer', { type: 'LoadBalancer', healthCheckNodePort: 30100 }, { external: true }],
  ]
  for (const [name, rest, { external }] of cases) {
    it(`F-012 externalTrafficPolicy Local of type ${name} ${external ? 'counts' : 'does not count'}`, () => {
      assert.equal(readOne({ ...rest, externalTrafficPolicy }).isExternalLocal, external)
      assert.equal(readOne(rest).isExternalLocal, false)
    })
  }

  it('F-013 internalTrafficPolicy counts for every type', () => {
    assert.equal(readOne({}).isInternalLocal, false)
    assert.equal(readOne({ internalTrafficPolicy: 'Local' }).isInternalLocal, true)
  })
})

describe('F-017 source ranges', () => {
  interface Case {
    readonly name: string
    readonly ranges: readonly string[]
    readonly ipv4: readonly string[]
    readonly ipv6: readonly string[]
  }
  const cases: readonly Case[] = [
    { name: 'a Service without ranges', ranges: [], ipv4: [], ipv6: [] },
    {
      name: 'ranges of each family, trimmed, in canonical form (F-004)',
      ranges: [' 203.0.113.000/025 ', '10.1.2.3/8', 'FD00::1/8\n'],
      ipv4: ['203.0.113.0/25', '10.0.0.0/8'],
      ipv6: ['fd00::/8'],
    },
    {
      name: 'a range with prefix length 0 allows all sources of its family',
      ranges: ['192.0.2.0/24', '0.0.0.0/0', 'fd00::/8'],
      ipv4: [],
      ipv6: ['fd00::/8'],
    },
    {
      name: 'ranges of only the other family allow all sources',
      ranges: ['fd00::/8'],
      ipv4: [],
      ipv6: ['fd00::/8'],
    },
  ]
  for (const { name, ranges, ipv4, ipv6 } of cases) {
    it(name, () => {
      const rest = { ...dual, loadBalancerSourceRanges: ranges }
      assert.deepEqual(readOne(rest).sourceRanges.map(formatCidr), ipv4)
      assert.deepEqual(readOne(rest, 'ipv6').sourceRanges.map(formatCidr), ipv6)
    })
  }
})

describe('F-018 health check port', () => {
  const local = { externalTrafficPolicy: 'Local', healthCheckNodePort: 30100 } as const
  const cases: readonly (readonly [string, Partial<Service>, number])[] = [
    ['LoadBalancer under policy Local', { ...local, type: 'LoadBalancer' }, 30100],
    ['LoadBalancer under policy Cluster', { healthCheckNodePort: 30100, type: 'LoadBalancer' }, 0],
    ['NodePort under policy Local', { ...local, type: 'NodePort' }, 0],
    ['ClusterIP with external IPs', { ...local, externalIPs: ['203.0.113.7'] }, 0],
  ]
  for (const [name, rest, expected] of cases) {
    it(name, () => assert.equal(readOne(rest).healthCheckNodePort, expected))
  }
})

describe('F-019 session affinity', () => {
  it('has the time-out in seconds, or 0', () => {
    assert.equal(readOne({}).affinitySeconds, 0)
    const sticky = { sessionAffinity: 'ClientIP', sessionAffinityTimeoutSeconds: 30 } as const
    assert.equal(readOne(sticky).affinitySeconds, 30)
  })
})

describe('problems of a Service', () => {
  const bad: Partial<Service> = {
    ...dual,
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    externalIPs: ['203.0.113', '203.0.113.7'],
    loadBalancerIngress: [vip('balancer'), vip('198.51.100.1')],
    loadBalancerSourceRanges: ['10.0.0.0', '10.0.0.0/33', '192.0.2.0/24'],
  }
  const sentences = [
    'spec.externalIPs: "203.0.113" is not an IP address',
    'status.loadBalancer.ingress: "balancer" is not an IP address',
    'spec.loadBalancerSourceRanges: "10.0.0.0" is not a network in CIDR form',
    'spec.loadBalancerSourceRanges: "10.0.0.0/33" is not a network in CIDR form',
    'spec.healthCheckNodePort is missing: load balancers cannot find the nodes with local endpoints',
  ]

  it('are reported per field, and the valid fields are programmed', () => {
    const { ports, problems } = read(bad)
    assert.deepEqual(problems, sentences)
    assert.deepEqual(ports[0]?.externalIPs, ['203.0.113.7'])
    assert.deepEqual(ports[0]?.loadBalancerIPs, ['198.51.100.1'])
    assert.deepEqual(ports[0]?.sourceRanges.map(formatCidr), ['192.0.2.0/24'])
  })

  it('are reported once, by the family of spec.clusterIP', () => {
    assert.deepEqual(read(bad, 'ipv6').problems, [])
    const turned = { clusterIP: 'fd00::1', clusterIPs: ['fd00::1', '10.0.0.1'] }
    const ipv6First: Partial<Service> = { ...bad, ...turned, ipFamilies: ['IPv6', 'IPv4'] }
    assert.deepEqual(read(ipv6First).problems, [])
    assert.deepEqual(read(ipv6First, 'ipv6').problems, sentences)
  })

  it('do not include fields of the other family', () => {
    const { problems } = read({ externalIPs: ['fd00::9'], loadBalancerSourceRanges: ['fd00::/8'] })
    assert.deepEqual(problems, [])
  })
})

describe('a change of an external field makes the port dirty', () => {
  const base: Partial<Service> = {
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 30100,
    externalIPs: ['203.0.113.7'],
    loadBalancerIngress: [vip('198.51.100.1')],
    loadBalancerSourceRanges: ['192.0.2.0/24'],
  }
  const changes: readonly (readonly [string, Partial<Service>])[] = [
    ['nodePort', { ports: [port(80, { nodePort: 30080 })] }],
    ['externalIPs', { externalIPs: ['203.0.113.8'] }],
    ['loadBalancer ingress', { loadBalancerIngress: [] }],
    ['loadBalancerSourceRanges', { loadBalancerSourceRanges: ['192.0.2.0/25'] }],
    ['healthCheckNodePort', { healthCheckNodePort: 30101 }],
    ['externalTrafficPolicy', { externalTrafficPolicy: 'Cluster' }],
    ['internalTrafficPolicy', { internalTrafficPolicy: 'Local' }],
    ['sessionAffinity', { sessionAffinity: 'ClientIP' }],
    ['timeout', { sessionAffinity: 'ClientIP', sessionAffinityTimeoutSeconds: 1 }],
    ['clusterIP', { clusterIP: '10.0.0.2' }],
    ['scheduler', { scheduling: { scheduler: 'mh' } }],
    ['its flags', { scheduling: { schedulerFlags: 'mh-port' } }],
    ['weights', { scheduling: { weights: 'node-a=2' } }],
  ]
  for (const [field, change] of changes) {
    it(field, () => {
      const tracker = trackFamily('ipv4')
      const apply = (rest: Partial<Service>): number => {
        tracker.apply(set(service('web', '10.0.0.1', { ...base, ...rest })))
        return tracker.take().size
      }
      assert.equal(apply({}), 1)
      assert.equal(apply({ externalIPs: ['203.0.113.007'], loadBalancerSourceRanges: ['192.0.2.9/24'] }), 0)
      assert.equal(apply(change), 1)
      assert.equal(apply(change), 0)
      tracker.apply(remove('Service', 'web'))
      assert.equal(tracker.take().size, 1)
    })
  }
})
