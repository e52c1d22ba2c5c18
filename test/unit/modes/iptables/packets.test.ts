import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpAddress, IpFamily } from '../../../../src/address.js'
import type { IptablesModeSettings } from '../../../../src/modes/iptables/testing.js'
import type { Backend, Route } from '../../../../src/routing/index.js'
import { type ModelNode, type ModelPacket, walk } from '../../../support/packet-model.js'
import { makeSettings } from '../../../support/packet-model-settings.js'
import { tablesOf } from '../../../support/packet-model-tables.js'
import { cidr, ip, plainRoute } from '../../../support/routes.js'

/** A node with two pods, two pods on another node behind the uplink, and an external client. */
const worlds = {
  ipv4: {
    node: ip('192.168.0.1'),
    otherAddress: ip('192.168.7.1'),
    pod: ip('10.1.0.9'),
    localEndpoint: ip('10.1.0.2'),
    remotePod: ip('10.2.0.9'),
    remoteEndpoint: ip('10.2.0.3'),
    outside: ip('203.0.113.9'),
    clusterIP: ip('10.96.0.1'),
    externalIP: ip('198.51.100.1'),
    balancerIP: ip('198.51.100.2'),
    podCidr: cidr('10.1.0.0/16'),
  },
  ipv6: {
    node: ip('fd00::1'),
    otherAddress: ip('fd00:7::1'),
    pod: ip('fd01::9'),
    localEndpoint: ip('fd01::2'),
    remotePod: ip('fd02::9'),
    remoteEndpoint: ip('fd02::3'),
    outside: ip('2001:db8::9'),
    clusterIP: ip('fd96::1'),
    externalIP: ip('2001:db8:1::1'),
    balancerIP: ip('2001:db8:1::2'),
    podCidr: cidr('fd01::/64'),
  },
} as const
type World = (typeof worlds)[IpFamily]

const sources = ['pod', 'remotePod', 'node', 'outside', 'hairpin'] as const
type Source = (typeof sources)[number]
const frontends = ['clusterIP', 'nodePort', 'balancerIP', 'externalIP'] as const
type FrontendName = (typeof frontends)[number]

interface Setup {
  readonly route?: Partial<Route>
  readonly settings?: Partial<IptablesModeSettings>
  /** Existing endpoints. Default: both. */
  readonly endpoints?: 'both' | 'remote' | 'none'
}

const at = (address: IpAddress): Backend => ({ address, port: 8080 })

function routeOf(world: World, { route = {}, endpoints = 'both' }: Setup): Route {
  const local = endpoints === 'both' ? [at(world.localEndpoint)] : []
  const usesLocal = route.isInternalLocal === true || route.isExternalLocal === true
  return plainRoute({
    clusterIP: world.clusterIP,
    externalIPs: [world.externalIP],
    loadBalancerIPs: [world.balancerIP],
    nodePort: 30080,
    clusterBackends: endpoints === 'none' ? [] : [...local, at(world.remoteEndpoint)],
    localBackends: usesLocal ? local : [],
    ...route,
  })
}

function settingsOf(family: IpFamily, { settings = {} }: Setup): IptablesModeSettings {
  return makeSettings(family, { nodeIP: worlds[family].node, ...settings })
}

function packetOf(world: World, source: Source, frontend: FrontendName): ModelPacket {
  const interfaces = { pod: 'cni0', remotePod: 'eth0', node: undefined, outside: 'eth0', hairpin: 'cni0' }
  return {
    inInterface: interfaces[source],
    source: world[source === 'hairpin' ? 'localEndpoint' : source],
    destination: world[frontend === 'nodePort' ? 'node' : frontend],
    protocol: 'tcp',
    destinationPort: frontend === 'nodePort' ? 30080 : 80,
  }
}

/** `L` and `R`: the local and the remote endpoint, `m` when masqueraded. `-`: the packet stays unchanged. */
function happens(family: IpFamily, setup: Setup, packet: ModelPacket, node: Partial<ModelNode> = {}): string {
  const world = worlds[family]
  const tables = tablesOf([routeOf(world, setup)], settingsOf(family, setup))
  const addresses = [world.node, world.otherAddress]
  const outcomes = walk(tables, { addresses, ...node }, packet)
  assert.ok(Math.abs(outcomes.reduce((sum, { probability }) => sum + probability, 0) - 1) < 1e-9)
  const [first] = outcomes
  for (const { probability } of outcomes) assert.equal(probability, first?.probability, 'equal chances')
  return outcomes
    .map((outcome) => {
      if (outcome.verdict !== 'accept') return outcome.verdict
      if (!outcome.isTranslated) return outcome.isMasqueraded ? '-m' : '-'
      assert.equal(outcome.port, 8080)
      assert.equal(outcome.mark, 0, 'packets leave without a mark')
      return (outcome.address === world.localEndpoint ? 'L' : 'R') + (outcome.isMasqueraded ? 'm' : '')
    })
    .join(' ')
}

const detector = (family: IpFamily) => ({ kind: 'cidr', cidr: worlds[family].podCidr }) as const
const bridge = { kind: 'interface', name: 'cni+' } as const

type Row = Readonly<Record<Source, string>>
const row = (
  ...[pod, remotePod, node, outside, hairpin]: readonly [string, string, string, string, string]
) => ({
  pod,
  remotePod,
  node,
  outside,
  hairpin,
})

/** Expected per source: pod, remote pod, node, outside, hairpin. */
const matrix: readonly {
  readonly policy: string
  readonly route: Partial<Route>
  readonly endpoints: NonNullable<Setup['endpoints']>
  readonly detects: boolean
  readonly clusterIP: Row
  readonly nodePort: Row
  /** Load-balancer VIP and external IP. */
  readonly addresses: Row
}[] = [
  {
    policy: 'Cluster',
    route: {},
    endpoints: 'both',
    detects: true,
    clusterIP: row('L R', 'Lm Rm', 'Lm Rm', 'Lm Rm', 'Lm R'),
    nodePort: row('Lm Rm', 'Lm Rm', 'Lm Rm', 'Lm Rm', 'Lm Rm'),
    addresses: row('Lm Rm', 'Lm Rm', 'Lm Rm', 'Lm Rm', 'Lm Rm'),
  },
  {
    policy: 'Cluster',
    route: {},
    endpoints: 'both',
    detects: false,
    clusterIP: row('L R', 'L R', 'L R', 'L R', 'Lm R'),
    nodePort: row('Lm Rm', 'Lm Rm', 'Lm Rm', 'Lm Rm', 'Lm Rm'),
    addresses: row('Lm Rm', 'Lm Rm', 'Lm Rm', 'Lm Rm', 'Lm Rm'),
  },
  {
    policy: 'Local',
    route: { isInternalLocal: true, isExternalLocal: true },
    endpoints: 'both',
    detects: true,
    clusterIP: row('L', 'Lm', 'Lm', 'Lm', 'Lm'),
    nodePort: row('L R', 'L', 'Lm Rm', 'L', 'Lm R'),
    addresses: row('L R', 'L', 'Lm Rm', 'L', 'Lm R'),
  },
  {
    policy: 'Local',
    route: { isInternalLocal: true, isExternalLocal: true },
    endpoints: 'both',
    detects: false,
    clusterIP: row('L', 'L', 'L', 'L', 'Lm'),
    nodePort: row('L', 'L', 'Lm Rm', 'L', 'Lm'),
    addresses: row('L', 'L', 'Lm Rm', 'L', 'Lm'),
  },
  {
    policy: 'Local',
    route: { isInternalLocal: true, isExternalLocal: true, hasEndpoints: true },
    endpoints: 'remote',
    detects: true,
    clusterIP: row('drop', 'drop', 'drop', 'drop', 'drop'),
    nodePort: row('R', 'drop', 'Rm', 'drop', 'R'),
    addresses: row('R', 'drop', 'Rm', 'drop', 'R'),
  },
  {
    policy: 'Local',
    route: { isInternalLocal: true, isExternalLocal: true, hasEndpoints: true },
    endpoints: 'remote',
    detects: false,
    clusterIP: row('drop', 'drop', 'drop', 'drop', 'drop'),
    nodePort: row('drop', 'drop', 'Rm', 'drop', 'drop'),
    addresses: row('drop', 'drop', 'Rm', 'drop', 'drop'),
  },
  // As in kube-proxy, packets of the node itself to an external address without endpoints go out to the network.
  ...['Cluster', 'Local'].flatMap((policy) =>
    [true, false].map((detects) => ({
      policy,
      route: { isInternalLocal: policy === 'Local', isExternalLocal: policy === 'Local' },
      endpoints: 'none' as const,
      detects,
      clusterIP: row('reject', 'reject', 'reject', 'reject', 'reject'),
      nodePort: row('reject', 'reject', 'reject', 'reject', 'reject'),
      addresses: row('reject', 'reject', '-', 'reject', 'reject'),
    })),
  ),
]

describe('packets through the tables', () => {
  for (const { policy, route, endpoints, detects, ...expected } of matrix) {
    const rows = {
      clusterIP: expected.clusterIP,
      nodePort: expected.nodePort,
      balancerIP: expected.addresses,
      externalIP: expected.addresses,
    }
    for (const family of ['ipv4', 'ipv6'] as const) {
      const name = `${family}, policy ${policy}, ${endpoints} endpoints, ${detects ? 'a' : 'no'} detector`
      it(name, () => {
        const detectors = detects ? [detector(family), bridge] : [undefined]
        for (const localDetector of detectors) {
          const setup = { route, endpoints, settings: { localDetector } }
          for (const frontend of frontends) {
            const found = sources.map((source) => [
              source,
              happens(family, setup, packetOf(worlds[family], source, frontend)),
            ])
            assert.deepEqual(Object.fromEntries(found), rows[frontend], frontend)
          }
        }
      })
    }
  }
})

const { ipv4: world } = worlds
const to = (source: Source, frontend: FrontendName, rest: Partial<ModelPacket> = {}): ModelPacket => ({
  ...packetOf(world, source, frontend),
  ...rest,
})

describe('the rest of the semantics', () => {
  const ranges = { sourceRanges: [cidr('203.0.113.0/24'), cidr('10.2.0.0/16')] }
  const nodeRange = { sourceRanges: [cidr('192.168.0.0/24')] }
  const loopback = ip('127.0.0.1')
  const fromLoopback = to('node', 'nodePort', { source: loopback, destination: loopback })
  const local = { isExternalLocal: true } as const
  const cases: readonly {
    readonly name: string
    readonly setup?: Setup
    readonly packet: ModelPacket
    readonly node?: Partial<ModelNode>
    readonly expected: string
  }[] = [
    {
      name: 'masqueradeAll masquerades pods',
      setup: { settings: { masqueradeAll: true } },
      packet: to('pod', 'clusterIP'),
      expected: 'Lm Rm',
    },
    {
      name: 'masqueradeAll does not apply to external traffic under policy Local',
      setup: { route: local, settings: { masqueradeAll: true } },
      packet: to('outside', 'nodePort'),
      expected: 'L',
    },
    {
      name: 'another port of the cluster IP stays unchanged',
      packet: to('pod', 'clusterIP', { destinationPort: 81 }),
      expected: '-',
    },
    {
      name: 'another protocol of the cluster IP stays unchanged',
      packet: to('pod', 'clusterIP', { protocol: 'udp' }),
      expected: '-',
    },
    {
      name: 'traffic to a pod address stays unchanged',
      packet: to('pod', 'clusterIP', { destination: world.remotePod }),
      expected: '-',
    },
    {
      name: 'a client in a source range is served',
      setup: { route: ranges },
      packet: to('outside', 'balancerIP'),
      expected: 'Lm Rm',
    },
    {
      name: 'a client outside the source ranges is dropped',
      setup: { route: ranges },
      packet: to('pod', 'balancerIP'),
      expected: 'drop',
    },
    {
      name: 'the node outside the source ranges is dropped',
      setup: { route: ranges },
      packet: to('node', 'balancerIP'),
      expected: 'drop',
    },
    {
      name: 'the node in a source range is served',
      setup: { route: nodeRange },
      packet: to('node', 'balancerIP'),
      expected: 'Lm Rm',
    },
    {
      name: 'the node in a source range is served with the VIP as its source',
      setup: { route: nodeRange },
      packet: to('node', 'balancerIP', { source: world.balancerIP }),
      expected: 'Lm Rm',
    },
    {
      name: 'the node outside the source ranges is dropped with the VIP as its source',
      setup: { route: ranges },
      packet: to('node', 'balancerIP', { source: world.balancerIP }),
      expected: 'drop',
    },
    {
      name: 'source ranges do not apply to node ports',
      setup: { route: ranges },
      packet: to('pod', 'nodePort'),
      expected: 'Lm Rm',
    },
    {
      name: 'source ranges do not apply to external IPs',
      setup: { route: ranges },
      packet: to('pod', 'externalIP'),
      expected: 'Lm Rm',
    },
    {
      name: 'source ranges and policy Local together',
      setup: { route: { ...ranges, ...local } },
      packet: to('outside', 'balancerIP'),
      expected: 'L',
    },
    {
      name: 'node ports on every local address',
      packet: to('outside', 'nodePort', { destination: world.otherAddress }),
      expected: 'Lm Rm',
    },
    {
      name: 'node ports on given addresses',
      setup: { settings: { nodePortAddresses: [world.node] } },
      packet: to('outside', 'nodePort'),
      expected: 'Lm Rm',
    },
    {
      name: 'node ports are not on other addresses',
      setup: { settings: { nodePortAddresses: [world.node] } },
      packet: to('outside', 'nodePort', { destination: world.otherAddress }),
      expected: '-',
    },
    {
      name: 'node ports of other hosts stay unchanged',
      packet: to('pod', 'nodePort', { destination: ip('192.168.0.2') }),
      expected: '-',
    },
    { name: 'node ports on localhost', packet: fromLoopback, expected: 'Lm Rm' },
    {
      name: 'node ports on localhost under policy Local',
      setup: { route: local },
      packet: fromLoopback,
      expected: 'Lm Rm',
    },
    {
      name: 'node ports on localhost when disabled',
      setup: { settings: { localhostNodePorts: false } },
      packet: fromLoopback,
      expected: '-',
    },
    {
      name: 'external packets to 127.0.0.1 are dropped',
      packet: to('outside', 'nodePort', { destination: loopback, destinationPort: 22 }),
      expected: 'drop',
    },
    {
      name: 'external packets to a node port on 127.0.0.1 without endpoints are dropped',
      setup: { endpoints: 'none' },
      packet: to('outside', 'nodePort', { destination: loopback }),
      expected: 'drop',
    },
    {
      name: 'a node with FORWARD policy DROP forwards masqueraded packets',
      setup: { settings: { localDetector: detector('ipv4') } },
      packet: to('outside', 'clusterIP'),
      node: { forwardPolicy: 'drop' },
      expected: 'Lm Rm',
    },
    {
      name: 'a node with FORWARD policy DROP forwards hairpin packets',
      setup: { endpoints: 'both', route: { ...local, isInternalLocal: true } },
      packet: to('hairpin', 'clusterIP'),
      node: { forwardPolicy: 'drop' },
      expected: 'Lm',
    },
    {
      name: 'a node with FORWARD policy DROP forwards established connections',
      packet: to('pod', 'clusterIP', { destination: world.outside, state: 'established' }),
      node: { forwardPolicy: 'drop' },
      expected: '-',
    },
    {
      name: 'a node with FORWARD policy DROP forwards no other new connection',
      packet: to('pod', 'clusterIP', { destination: world.outside }),
      node: { forwardPolicy: 'drop' },
      expected: 'drop',
    },
    {
      name: 'a packet with conntrack state INVALID is dropped',
      packet: to('pod', 'clusterIP', { destination: world.outside, state: 'invalid' }),
      expected: 'drop',
    },
    {
      name: 'a packet with conntrack state INVALID is forwarded with be_liberal',
      setup: { settings: { dropsInvalid: false } },
      packet: to('pod', 'clusterIP', { destination: world.outside, state: 'invalid' }),
      expected: '-',
    },
    {
      name: 'a connection outlives its endpoints',
      setup: { endpoints: 'none' },
      packet: to('pod', 'clusterIP', { destination: world.remoteEndpoint, state: 'established' }),
      expected: '-',
    },
  ]
  for (const { name, setup = {}, packet, node, expected } of cases) {
    it(name, () => assert.equal(happens('ipv4', setup, packet, node), expected))
  }

  it('health checks are accepted with and without endpoints', () => {
    for (const endpoints of ['both', 'none'] as const) {
      const setup = { route: { ...local, healthCheckNodePort: 31000 }, endpoints }
      assert.equal(happens('ipv4', setup, to('outside', 'nodePort', { destinationPort: 31000 })), '-')
    }
  })

  it('protocols have their own rules', () => {
    for (const [protocol, sent] of [
      ['UDP', 'udp'],
      ['SCTP', 'sctp'],
    ] as const) {
      const setup = { route: { protocol } }
      assert.equal(happens('ipv4', setup, to('pod', 'clusterIP', { protocol: sent })), 'L R')
      assert.equal(happens('ipv4', setup, to('pod', 'clusterIP')), '-')
    }
  })
})

describe('session affinity', () => {
  const setup = { route: { affinitySeconds: 60 } } as const
  const tables = tablesOf([routeOf(world, setup)], settingsOf('ipv4', setup))
  const walkFrom = (packet: ModelPacket, recent: ModelNode['recent'] = new Map()) =>
    walk(tables, { addresses: [world.node], recent }, packet)

  it('records a new client at its endpoint', () => {
    const outcomes = walkFrom(to('outside', 'nodePort'))
    assert.deepEqual(
      outcomes.map(({ address, probability }) => [address, probability]),
      [
        [world.localEndpoint, 0.5],
        [world.remoteEndpoint, 0.5],
      ],
    )
    const lists = outcomes.map(({ remembered }) => remembered)
    for (const [i, list] of lists.entries()) {
      assert.match(list[0] ?? '', /^KUBE-SEP-[A-Z2-7]{16}$/)
      const recent = new Map([[list[0] ?? '', new Map([[world.outside, 59]])]])
      // Every frontend of the Service leads to the same endpoint.
      for (const frontend of frontends) {
        const again = walkFrom(to('outside', frontend), recent)
        assert.deepEqual(
          again.map(({ address, remembered }) => [address, remembered]),
          [[outcomes[i]?.address, list]],
        )
      }
      assert.equal(walkFrom(to('pod', 'clusterIP'), recent).length, 2)
      const old = new Map([[list[0] ?? '', new Map([[world.outside, 61]])]])
      assert.equal(walkFrom(to('outside', 'nodePort'), old).length, 2)
    }
  })
})
