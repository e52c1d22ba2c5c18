import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig } from '../../../../src/config/index.js'
import { compileRoute, type IpvsModeSettings } from '../../../../src/modes/ipvs/testing.js'
import { needsMark } from '../../../../src/layers/ipvs/testing.js'
import { markAddress, setName } from '../../../../src/layers/ipvs/index.js'
import type { Route } from '../../../../src/routing/index.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

/** The addresses to which the configuration resolves, on a node with two. */
function scheduled(scheduler: string): IpvsModeSettings {
  const { ipvs } = resolveConfig({ manifests: 'none', ipvs: { scheduler } })
  const nodePortAddresses = [ip('192.168.60.11'), ip('192.168.62.11')]
  const node = { nodePortAddresses, nodeAddresses: new Set(nodePortAddresses), nodeIP: nodePortAddresses[0] }
  return { ...ipvs, masqueradeMark: 0x4000, missing: new Set<string>(), ...node }
}

describe('a route as a virtual server', () => {
  const none = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
  const cases = [
    { name: 'plain', route: {}, scheduler: 'rr', settings: none },
    {
      name: 'IPv6 masks 128 bits',
      route: { clusterIP: ip('fd00::1') },
      scheduler: 'rr',
      settings: { ...none, netmaskLength: 128 },
    },
    {
      name: 'affinity is persistence',
      route: { affinitySeconds: 600 },
      scheduler: 'rr',
      settings: { ...none, flags: 0x1, timeoutSeconds: 600 },
    },
    {
      name: 'mh hashes the port',
      route: {},
      scheduler: 'mh',
      settings: { ...none, scheduler: 'mh', flags: 0x10 },
    },
    {
      name: 'mh with affinity',
      route: { affinitySeconds: 1 },
      scheduler: 'mh',
      settings: { scheduler: 'mh', flags: 0x11, timeoutSeconds: 1, netmaskLength: 32 },
    },
    { name: 'sh has no flags', route: {}, scheduler: 'sh', settings: { ...none, scheduler: 'sh' } },
  ] as const
  for (const { name, route, scheduler, settings } of cases) {
    it(name, () => {
      const [server, ...others] = compileRoute(plainRoute(route), scheduled(scheduler), undefined)
      assert.deepEqual(server?.settings, settings)
      assert.deepEqual(others, [])
    })
  }

  it('keeps protocol, port and real servers', () => {
    for (const [protocol, expected] of [
      ['TCP', 'tcp'],
      ['UDP', 'udp'],
      ['SCTP', 'sctp'],
    ] as const) {
      const clusterBackends = backends(8080, '10.1.0.1')
      const [server] = compileRoute(plainRoute({ protocol, clusterBackends }), scheduled('rr'), undefined)
      assert.deepEqual(server?.key, { family: 'ipv4', protocol: expected, address: '10.96.0.1', port: 80 })
      const settings = { weight: 1, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 }
      assert.deepEqual([...(server?.realServers ?? [])], [{ key: clusterBackends[0], settings }])
      assert.equal(server?.bindAddress, true)
    }
  })

  const clusterBackends = backends(80, '10.1.0.1', '10.1.0.2')
  const localBackends = backends(80, '10.1.0.1')
  const choices = [
    { name: 'Cluster', route: { clusterBackends }, expected: clusterBackends },
    { name: 'Local', route: { isInternalLocal: true, localBackends }, expected: localBackends },
    {
      name: 'Local without local endpoints',
      route: { isInternalLocal: true, hasEndpoints: true },
      expected: [],
    },
    {
      name: 'Local without local endpoints, with cluster endpoints for external traffic',
      route: { isInternalLocal: true, clusterBackends },
      expected: [],
    },
    {
      name: 'Local only for external traffic',
      route: { isExternalLocal: true, clusterBackends, localBackends },
      expected: clusterBackends,
    },
  ]
  for (const { name, route, expected } of choices) {
    it(`real servers of policy ${name}`, () => {
      const [server] = compileRoute(plainRoute(route), scheduled('rr'), undefined)
      assert.deepEqual(
        Array.from(server?.realServers ?? [], ({ key }) => key),
        expected,
      )
    })
  }
})

const hex = (number: number): string => `0x${number.toString(16)}`

/** `tcp 10.98.0.1:80 -> 10.1.0.1:80 in KUBE-EXTERNAL-IP`; `!`: its address is not bound. */
function lines(rest: Partial<Route>, mark?: number): readonly string[] {
  return compileRoute(plainRoute(rest), scheduled('rr'), mark).map((server) => {
    const { key, realServers, bindAddress, entries } = server
    const name = 'mark' in key ? `mark ${hex(key.mark)}` : `${key.protocol} ${key.address}:${key.port}`
    const reals = Array.from(realServers, (real) => `${real.key.address}:${real.key.port}`)
    const sets = entries.map(({ set, entry }) => {
      const { address, secondAddress, prefixLength, mark: mapped, port } = entry
      const source = prefixLength === undefined ? secondAddress : `${secondAddress}/${prefixLength}`
      const words = [
        set === 'marks' && address,
        source,
        mapped && `mark ${hex(mapped.value)}/${hex(mapped.mask)}`,
        address === undefined && `port ${port ?? ''}`,
      ]
      const about = words.filter((word) => typeof word === 'string').join(' ')
      return setName(set, 'ipv4').replace('KUBE-', '') + (about === '' ? '' : `(${about})`)
    })
    const to = reals.length === 0 ? 'none' : reals.join(' ')
    return `${bindAddress ? '' : '!'}${name} -> ${to} in ${sets.join(' ')}`
  })
}

const isMarked = (rest: Partial<Route>): boolean => needsMark(plainRoute(rest))

describe('the frontends of a route, golden', () => {
  const clusterBackends = backends(80, '10.1.0.1', '10.1.0.2')
  const localBackends = backends(80, '10.1.0.1')
  const exposed: Partial<Route> = {
    nodePort: 30_080,
    externalIPs: [ip('10.98.0.1')],
    loadBalancerIPs: [ip('10.97.0.1')],
    isExternallyAccessible: true,
    clusterBackends,
    hasEndpoints: true,
  }
  const both = '10.1.0.1:80 10.1.0.2:80'
  const cases: readonly {
    readonly name: string
    readonly route: Partial<Route>
    readonly mark?: number
    readonly expected: readonly string[]
  }[] = [
    {
      name: 'policy Cluster',
      route: exposed,
      expected: [
        `tcp 10.96.0.1:80 -> ${both} in CLUSTER-IP IPVS-IPS`,
        `tcp 10.98.0.1:80 -> ${both} in EXTERNAL-IP IPVS-IPS`,
        `tcp 10.97.0.1:80 -> ${both} in LOAD-BALANCER IPVS-IPS`,
        `!tcp 192.168.60.11:30080 -> ${both} in NODE-PORT-TCP(port 30080)`,
        `!tcp 192.168.62.11:30080 -> ${both} in NODE-PORT-TCP(port 30080)`,
      ],
    },
    {
      name: 'policy Local with a local endpoint',
      route: { ...exposed, isExternalLocal: true, localBackends },
      mark: 0x1007,
      expected: [
        `tcp 10.96.0.1:80 -> ${both} in CLUSTER-IP IPVS-IPS`,
        'tcp 10.98.0.1:80 -> 10.1.0.1:80 in EXTERNAL-IP-LOCAL EXTERNAL-LOCAL-MARK(mark 0x1007/0x107f) IPVS-IPS',
        'tcp 10.97.0.1:80 -> 10.1.0.1:80 in LOAD-BALANCER LOAD-BALANCER-LOCAL EXTERNAL-LOCAL-MARK(mark 0x1007/0x107f) IPVS-IPS',
        '!tcp 192.168.60.11:30080 -> 10.1.0.1:80 in NODE-PORT-TCP(port 30080) NODE-PORT-LOCAL-TCP(port 30080) EXTERNAL-LOCAL-MARK(mark 0x1007/0x107f)',
        '!tcp 192.168.62.11:30080 -> 10.1.0.1:80 in NODE-PORT-TCP(port 30080) NODE-PORT-LOCAL-TCP(port 30080) EXTERNAL-LOCAL-MARK(mark 0x1007/0x107f)',
        `!mark 0x1007 -> ${both} in EXTERNAL-LOCAL-MARKS(0.0.16.7)`,
        `!mark 0x5007 -> ${both} in EXTERNAL-LOCAL-MARKS(0.0.80.7)`,
      ],
    },
    {
      name: 'policy Local without a local endpoint',
      route: {
        ...exposed,
        nodePort: 0,
        loadBalancerIPs: [],
        isExternalLocal: true,
        isInternalLocal: true,
        healthCheckNodePort: 32_000,
      },
      mark: 0x1007,
      expected: [
        'tcp 10.96.0.1:80 -> none in CLUSTER-IP NO-LOCAL-ENDPOINTS HEALTH-CHECK-NODE-PORT(port 32000) IPVS-IPS',
        `tcp 10.98.0.1:80 -> ${both} in EXTERNAL-IP-LOCAL EXTERNAL-LOCAL-MARK(mark 0x1007/0x107f) EXTERNAL-NO-LOCAL IPVS-IPS`,
        `!mark 0x1007 -> ${both} in EXTERNAL-LOCAL-MARKS(0.0.16.7)`,
        `!mark 0x5007 -> ${both} in EXTERNAL-LOCAL-MARKS(0.0.80.7)`,
      ],
    },
    {
      name: 'policy Local without a cluster IP: marks need the one external frontend',
      route: {
        ...exposed,
        clusterIP: undefined,
        nodePort: 0,
        loadBalancerIPs: [],
        isExternalLocal: true,
        localBackends,
        healthCheckNodePort: 32_000,
      },
      mark: 0x1007,
      expected: [
        'tcp 10.98.0.1:80 -> 10.1.0.1:80 in EXTERNAL-IP-LOCAL EXTERNAL-LOCAL-MARK(mark 0x1007/0x107f) IPVS-IPS HEALTH-CHECK-NODE-PORT(port 32000)',
        `!mark 0x1007 -> ${both} in EXTERNAL-LOCAL-MARKS(0.0.16.7)`,
        `!mark 0x5007 -> ${both} in EXTERNAL-LOCAL-MARKS(0.0.80.7)`,
      ],
    },
    {
      name: 'policy Local without a mark equals kube-proxy (F-052)',
      route: { ...exposed, nodePort: 0, loadBalancerIPs: [], isExternalLocal: true, localBackends },
      expected: [
        `tcp 10.96.0.1:80 -> ${both} in CLUSTER-IP IPVS-IPS`,
        'tcp 10.98.0.1:80 -> 10.1.0.1:80 in EXTERNAL-IP-LOCAL IPVS-IPS',
      ],
    },
    {
      name: 'without endpoints, guarded',
      route: {
        ...exposed,
        protocol: 'SCTP',
        clusterBackends: [],
        hasEndpoints: false,
        sourceRanges: [cidr('192.168.60.0/24')],
      },
      expected: [
        'sctp 10.96.0.1:80 -> none in CLUSTER-IP NO-ENDPOINTS IPVS-IPS',
        'sctp 10.98.0.1:80 -> none in EXTERNAL-IP NO-ENDPOINTS IPVS-IPS',
        'sctp 10.97.0.1:80 -> none in LOAD-BALANCER NO-ENDPOINTS IPVS-IPS',
        '!sctp 192.168.60.11:30080 -> none in NODE-PORT-SCTP-HASH NO-ENDPOINTS',
        '!sctp 192.168.62.11:30080 -> none in NODE-PORT-SCTP-HASH NO-ENDPOINTS',
      ],
    },
    {
      name: 'source ranges, with the node in one; an external IP that is the node itself',
      route: {
        ...exposed,
        nodePort: 0,
        externalIPs: [ip('192.168.62.11')],
        sourceRanges: [cidr('192.168.60.0/24'), cidr('10.0.0.0/8')],
      },
      expected: [
        `tcp 10.96.0.1:80 -> ${both} in CLUSTER-IP IPVS-IPS`,
        `!tcp 192.168.62.11:80 -> ${both} in EXTERNAL-IP`,
        `tcp 10.97.0.1:80 -> ${both} in LOAD-BALANCER LOAD-BALANCER-FW LOAD-BALANCER-SOURCE-CIDR(192.168.60.0/24) ` +
          'LOAD-BALANCER-SOURCE-CIDR(10.0.0.0/8) LOAD-BALANCER-SOURCE-IP(10.97.0.1) IPVS-IPS',
      ],
    },
    {
      name: 'an external IP that is also a load-balancer VIP has its source ranges and one virtual server',
      route: {
        ...exposed,
        nodePort: 0,
        externalIPs: [ip('10.97.0.1'), ip('10.98.0.1')],
        sourceRanges: [cidr('10.0.0.0/8')],
      },
      expected: [
        `tcp 10.96.0.1:80 -> ${both} in CLUSTER-IP IPVS-IPS`,
        `tcp 10.98.0.1:80 -> ${both} in EXTERNAL-IP IPVS-IPS`,
        `tcp 10.97.0.1:80 -> ${both} in LOAD-BALANCER EXTERNAL-IP LOAD-BALANCER-FW LOAD-BALANCER-SOURCE-CIDR(10.0.0.0/8) IPVS-IPS`,
      ],
    },
  ]
  for (const { name, route, mark, expected } of cases) {
    it(name, () => assert.deepEqual(lines(route, mark), expected))
  }

  it('a mark is needed only under policy Local', () => {
    assert.equal(isMarked({ isExternalLocal: true, isExternallyAccessible: true }), true)
    assert.equal(isMarked({ isExternalLocal: true }), false)
    assert.equal(isMarked({ isExternallyAccessible: true }), false)
  })

  it('a mark of any bits maps to an address in each family', () => {
    assert.equal(markAddress(0x8001_107f, 'ipv4'), '128.1.16.127')
    assert.equal(markAddress(0x8001_107f, 'ipv6'), '::8001:107f')
    assert.equal(markAddress(0x107f, 'ipv6'), '::107f')
  })

  it('IPv6 names are cut as in kube-proxy', () => {
    assert.equal(setName('loadBalancerSources', 'ipv6'), 'KUBE-6-LOAD-BALANCER-SOURCE-CID')
    assert.equal(setName('nodePortLocalSctp', 'ipv6'), 'KUBE-6-NODE-PORT-LOCAL-SCTP-HAS')
    assert.equal(setName('clusterIP', 'ipv6'), 'KUBE-6-CLUSTER-IP')
  })
})
