import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formatCidr } from '../../../../src/address.js'
import { type NftModeSettings } from '../../../../src/layers/nft-table/index.js'
import { compileRoute, type DesiredFrontend, maxEndpoints } from '../../../../src/layers/nft-table/testing.js'
import { type Backend, describeFrontend, type Route } from '../../../../src/routing/index.js'
import { makeNftSettings } from '../../../support/nft-table.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

/** A frontend in words: `tcp 10.96.0.1:80 cluster-ip to 10.1.0.1:80`. */
function inWords(desired: DesiredFrontend): string {
  const { frontend, refusal, shortCircuit, chain, allowedSources } = desired
  const words = [
    describeFrontend(frontend),
    desired.isClusterIP ? 'cluster-ip' : '',
    desired.isMasqueraded ? 'masqueraded' : '',
    refusal ?? '',
    chain === '' ? '' : `by ${chain}`,
    desired.backends.length === 0 ? '' : `to ${list(desired.backends)}`,
    shortCircuit.length === 0 ? '' : `short circuit to ${list(shortCircuit)}`,
    allowedSources === undefined ? '' : `from ${allowedSources.map(formatCidr).join(' ')}`,
  ]
  return words.filter((word) => word !== '').join(' ')
}

function list(some: readonly Backend[]): string {
  return some.map(({ address, port }) => `${address}:${port}`).join(' ')
}

function compiled(route: Partial<Route>, settings: Partial<NftModeSettings> = {}): readonly string[] {
  return compileRoute(plainRoute(route), makeNftSettings('ipv4', settings)).frontends.map(inWords)
}

const here = backends(8080, '10.1.0.1')
const everywhere = backends(8080, '10.1.0.1', '10.2.0.1')
const exposed = {
  isExternallyAccessible: true,
  nodePort: 30080,
  externalIPs: [ip('198.51.100.1')],
  loadBalancerIPs: [ip('203.0.113.1')],
} as const

const cases: readonly {
  readonly name: string
  readonly route: Partial<Route>
  readonly settings?: Partial<NftModeSettings>
  readonly frontends: readonly string[]
}[] = [
  {
    name: 'a cluster IP',
    route: { clusterBackends: everywhere, affinitySeconds: 60 },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip by own-LADD6ECIKXGNICRRZFQCWSJYJJ to 10.1.0.1:8080 10.2.0.1:8080',
    ],
  },
  {
    name: 'F-053 a cluster IP without endpoints',
    route: { protocol: 'UDP' },
    frontends: ['udp 10.96.0.1:80 cluster-ip reject'],
  },
  {
    name: 'F-054 internal policy Local with endpoints on other nodes only',
    route: { isInternalLocal: true, hasEndpoints: true },
    frontends: ['tcp 10.96.0.1:80 cluster-ip drop'],
  },
  {
    name: 'F-053 internal policy Local without endpoints',
    route: { isInternalLocal: true },
    frontends: ['tcp 10.96.0.1:80 cluster-ip reject'],
  },
  {
    name: 'F-049 external policy Cluster',
    route: { ...exposed, clusterBackends: everywhere },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip to 10.1.0.1:8080 10.2.0.1:8080',
      'tcp 198.51.100.1:80 masqueraded to 10.1.0.1:8080 10.2.0.1:8080',
      'tcp 203.0.113.1:80 masqueraded to 10.1.0.1:8080 10.2.0.1:8080',
      'tcp node port 30080 masqueraded to 10.1.0.1:8080 10.2.0.1:8080',
    ],
  },
  {
    name: 'F-053 external policy Cluster without endpoints',
    route: exposed,
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip reject',
      'tcp 198.51.100.1:80 masqueraded reject',
      'tcp 203.0.113.1:80 masqueraded reject',
      'tcp node port 30080 masqueraded reject',
    ],
  },
  {
    name: 'F-051 external policy Local',
    route: { ...exposed, isExternalLocal: true, clusterBackends: everywhere, localBackends: here },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip to 10.1.0.1:8080 10.2.0.1:8080',
      'tcp 198.51.100.1:80 to 10.1.0.1:8080 short circuit to 10.1.0.1:8080 10.2.0.1:8080',
      'tcp 203.0.113.1:80 to 10.1.0.1:8080 short circuit to 10.1.0.1:8080 10.2.0.1:8080',
      'tcp node port 30080 to 10.1.0.1:8080 short circuit to 10.1.0.1:8080 10.2.0.1:8080',
    ],
  },
  {
    name: 'F-054 external policy Local with endpoints on other nodes only',
    route: { ...exposed, isExternalLocal: true, clusterBackends: everywhere },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip to 10.1.0.1:8080 10.2.0.1:8080',
      'tcp 198.51.100.1:80 drop short circuit to 10.1.0.1:8080 10.2.0.1:8080',
      'tcp 203.0.113.1:80 drop short circuit to 10.1.0.1:8080 10.2.0.1:8080',
      'tcp node port 30080 drop short circuit to 10.1.0.1:8080 10.2.0.1:8080',
    ],
  },
  {
    name: 'both policies Local, endpoints here',
    route: {
      nodePort: 30080,
      isExternallyAccessible: true,
      isInternalLocal: true,
      isExternalLocal: true,
      localBackends: here,
      clusterBackends: everywhere,
    },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip to 10.1.0.1:8080',
      'tcp node port 30080 to 10.1.0.1:8080 short circuit to 10.1.0.1:8080 10.2.0.1:8080',
    ],
  },
  {
    name: 'F-056 source ranges apply to load-balancer IPs, also without endpoints',
    route: { ...exposed, sourceRanges: [cidr('192.0.2.0/24'), cidr('10.0.0.0/8'), cidr('192.0.2.0/24')] },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip reject',
      'tcp 198.51.100.1:80 masqueraded reject',
      'tcp 203.0.113.1:80 masqueraded reject from 192.0.2.0/24 10.0.0.0/8',
      'tcp node port 30080 masqueraded reject',
    ],
  },
  {
    name: 'F-056 a range with the node allows the load-balancer IPs',
    route: {
      clusterBackends: here,
      isExternallyAccessible: true,
      loadBalancerIPs: [ip('203.0.113.1'), ip('203.0.113.2')],
      sourceRanges: [cidr('192.0.2.0/24')],
    },
    settings: { nodeIP: ip('192.0.2.7') },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip to 10.1.0.1:8080',
      'tcp 203.0.113.1:80 masqueraded to 10.1.0.1:8080 from 192.0.2.0/24 203.0.113.1/32 203.0.113.2/32',
      'tcp 203.0.113.2:80 masqueraded to 10.1.0.1:8080 from 192.0.2.0/24 203.0.113.1/32 203.0.113.2/32',
    ],
  },
  {
    name: 'F-056 a range without the node does not',
    route: {
      clusterBackends: here,
      isExternallyAccessible: true,
      loadBalancerIPs: [ip('203.0.113.1')],
      sourceRanges: [cidr('192.0.2.0/24')],
    },
    settings: { nodeIP: ip('192.0.3.7') },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip to 10.1.0.1:8080',
      'tcp 203.0.113.1:80 masqueraded to 10.1.0.1:8080 from 192.0.2.0/24',
    ],
  },
  {
    name: 'F-056 source ranges apply to a load-balancer IP that is another address of the Service too',
    route: {
      clusterBackends: here,
      isExternallyAccessible: true,
      externalIPs: [ip('203.0.113.1'), ip('203.0.113.2')],
      loadBalancerIPs: [ip('10.96.0.1'), ip('203.0.113.1')],
      sourceRanges: [cidr('192.0.2.0/24')],
    },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip to 10.1.0.1:8080 from 192.0.2.0/24',
      'tcp 203.0.113.1:80 masqueraded to 10.1.0.1:8080 from 192.0.2.0/24',
      'tcp 203.0.113.2:80 masqueraded to 10.1.0.1:8080',
    ],
  },
  {
    name: 'F-056 in iptables mode they do not: the rule of the other address comes first',
    route: {
      clusterBackends: here,
      isExternallyAccessible: true,
      externalIPs: [ip('203.0.113.1')],
      loadBalancerIPs: [ip('10.96.0.1'), ip('203.0.113.1'), ip('203.0.113.2')],
      sourceRanges: [cidr('192.0.2.0/24')],
    },
    settings: { semantics: 'iptables' },
    frontends: [
      'tcp 10.96.0.1:80 cluster-ip to 10.1.0.1:8080',
      'tcp 203.0.113.1:80 masqueraded to 10.1.0.1:8080',
      'tcp 203.0.113.2:80 masqueraded to 10.1.0.1:8080 from 192.0.2.0/24',
    ],
  },
  {
    name: 'F-056 in iptables mode a Service without endpoints refuses every source',
    route: {
      isExternallyAccessible: true,
      loadBalancerIPs: [ip('203.0.113.1')],
      sourceRanges: [cidr('192.0.2.0/24')],
    },
    settings: { semantics: 'iptables' },
    frontends: ['tcp 10.96.0.1:80 cluster-ip reject', 'tcp 203.0.113.1:80 masqueraded reject'],
  },
]

function on(nodeName: string | undefined, ...addresses: readonly string[]): readonly Backend[] {
  return backends(53, ...addresses).map((backend) => ({ ...backend, nodeName }))
}

describe('compileRoute() of nftables mode', () => {
  for (const { name, route, settings, frontends } of cases)
    it(name, () => assert.deepEqual(compiled(route, settings), frontends))

  it('has a hairpin for each endpoint on this node, once (F-050)', () => {
    const route = plainRoute({
      protocol: 'UDP',
      clusterBackends: [
        ...on('node-a', '10.1.0.1'),
        ...on('node-b', '10.2.0.1'),
        ...on(undefined, '10.3.0.1'),
      ],
      localBackends: on('node-a', '10.1.0.1', '10.1.0.2'),
    })
    assert.deepEqual(compileRoute(route, makeNftSettings()).hairpins, [
      { address: ip('10.1.0.1'), protocol: 'udp', port: 53 },
      { address: ip('10.1.0.2'), protocol: 'udp', port: 53 },
    ])
    const iptables = makeNftSettings('ipv4', { semantics: 'iptables' })
    assert.deepEqual(compileRoute(route, iptables).hairpins, [])
  })

  it('takes no more endpoints than a count can have', () => {
    const many = Array.from({ length: maxEndpoints + 1 }, (_, index) =>
      backends(80, `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`),
    ).flat()
    const { frontends } = compileRoute(plainRoute({ clusterBackends: many }), makeNftSettings())
    assert.equal(frontends[0]?.backends.length, maxEndpoints)
  })
})
