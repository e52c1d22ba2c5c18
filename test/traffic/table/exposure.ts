// The outer rim: source ranges of load balancers, addresses of node ports, the loopback, the firewall's own rules, health checks.
import { port } from '../../support/objects.js'
import type { Check, HttpCheck } from './case.js'
import {
  type CaseAt,
  expected,
  externalFrontends,
  flowCheck,
  type Frontend,
  frontends,
  servicePort,
  type Slot,
} from './slot.js'
import {
  addresses,
  families,
  loopback,
  type Pair,
  privatePort,
  secondNodeAddress,
  serverPorts,
} from './world.js'

const here = ['a0'] as const
const outsideRanges = ['192.0.2.0/24', '2001:db8:2::/64'] as const
const nodeRanges = ['192.168.60.0/24', 'fd00:192:168:60::/64'] as const

function ranges(name: string, loadBalancerSourceRanges: readonly string[], checks: CaseChecks): CaseAt {
  return (slot) => ({
    name,
    rules: ['F-017', 'F-056'],
    objects: [slot.exposed({ loadBalancerSourceRanges }), ...slot.slices(here)],
    checks: checks(slot),
  })
}

type CaseChecks = (slot: Slot) => readonly Check[]

const served = { by: here, sees: 'node' } as const

export const sourceRangeCases: readonly CaseAt[] = [
  ranges(
    "a load balancer's source ranges let in who is in them, and guard its addresses alone",
    outsideRanges,
    (slot) => [
      ...slot.flowsTo(['loadBalancer'], 'outside', served),
      ...(['a1', 'b1', 'node', 'neighbour'] as const).flatMap((from) =>
        slot.flowsTo(['loadBalancer'], from, 'dropped'),
      ),
      ...slot.flowsTo(['nodePort', 'externalIP'], 'b1', served),
      ...slot.flowsTo(['clusterIP'], 'b1', { by: here, sees: 'kept' }),
    ],
  ),
  ranges(
    'spaces around a source range do not matter',
    outsideRanges.map((range) => ` ${range} `),
    (slot) => [
      ...slot.flowsTo(['loadBalancer'], 'outside', served),
      ...slot.flowsTo(['loadBalancer'], 'a1', 'dropped'),
    ],
  ),
  ranges(
    'a source range of everything opens the load balancer',
    ['172.16.0.0/12', '0.0.0.0/0', 'fd01::/64', '::/0'],
    (slot) => (['outside', 'a1'] as const).flatMap((from) => slot.flowsTo(['loadBalancer'], from, served)),
  ),
  ranges('source ranges of one family leave the other one open', [outsideRanges[1]], (slot) =>
    slot.flows.map((flow) =>
      flowCheck(
        'b1',
        slot.to('loadBalancer', flow),
        expected(flow.family === 'IPv6' ? 'dropped' : served, flow.family),
      ),
    ),
  ),
  ranges('source ranges may name the node', nodeRanges, (slot) => [
    ...slot.flowsTo(['loadBalancer'], 'node', served),
    ...slot.flowsTo(['loadBalancer'], 'outside', 'dropped'),
  ]),
  (slot) => ({
    name: 'source ranges and policy Local go together: who is let in is seen as it is',
    rules: ['F-049', 'F-056'],
    objects: [
      slot.exposed({ loadBalancerSourceRanges: outsideRanges, externalTrafficPolicy: 'Local' }),
      ...slot.slices(['a0', 'b0']),
    ],
    checks: [
      ...slot.flowsTo(['loadBalancer'], 'outside', { by: here, sees: 'kept' }),
      ...slot.flowsTo(['loadBalancer'], 'b1', 'dropped'),
    ],
  }),
  (slot) => ({
    name: "an external IP that is a load balancer's address as well, with source ranges",
    rules: ['F-010', 'F-056'],
    objects: [
      slot.exposed({
        externalIPs: Object.values(slot.address('loadBalancer')),
        loadBalancerSourceRanges: outsideRanges,
      }),
      ...slot.slices(here),
    ],
    // Of two rules for one address kube-proxy's first counts in iptables mode, the external IP's.
    checks: (['outside', 'a1'] as const).flatMap((from) => slot.flowsTo(['loadBalancer'], from, served)),
  }),
  (slot) => ({
    name: 'without endpoints a guarded load balancer refuses all clients',
    rules: ['F-053', 'F-056'],
    objects: [slot.exposed({ loadBalancerSourceRanges: outsideRanges })],
    checks: slot.flowsTo(['loadBalancer'], 'outside', 'refused'),
  }),
  (slot) => ({
    name: "the node that carries the load balancer's address reaches it when its own address is in a range",
    rules: ['F-056'],
    objects: [slot.exposed({ loadBalancerSourceRanges: nodeRanges }), ...slot.slices(here)],
    nodeAddresses: Object.values(slot.address('loadBalancer')),
    checks: slot.flowsTo(['loadBalancer'], 'node', served),
  }),
  (slot) => ({
    name: "on a node that carries the load balancer's address the ranges hold, for the node itself as well",
    rules: ['F-056'],
    objects: [slot.exposed({ loadBalancerSourceRanges: outsideRanges }), ...slot.slices(here)],
    nodeAddresses: Object.values(slot.address('loadBalancer')),
    checks: (['node', 'b1', 'neighbour'] as const).flatMap((from) =>
      slot.flowsTo(['loadBalancer'], from, 'dropped'),
    ),
  }),
]

function nodePortChecks(
  slot: Slot,
  own: Pair,
  family: 'IPv4' | 'IPv6',
  expect: typeof served | 'refused',
): readonly Check[] {
  return slot.flows
    .filter((flow) => flow.family === family)
    .map((flow) =>
      flowCheck('outside', { ...slot.to('nodePort', flow), address: own[family] }, expected(expect, family)),
    )
}

function loopbackChecks(slot: Slot, expect: { readonly IPv4: typeof served | 'refused' }): readonly Check[] {
  const expects = { ...expect, IPv6: 'refused' } as const
  return slot.flows.map((flow) =>
    flowCheck(
      'node',
      { ...slot.to('nodePort', flow), address: loopback[flow.family] },
      expected(expects[flow.family], flow.family),
    ),
  )
}

export const loopbackCases: readonly CaseAt[] = [
  ...(['Cluster', 'Local'] as const).map((externalTrafficPolicy): CaseAt => (slot) => ({
    name: `a node port answers on 127.0.0.1, never on ::1: policy ${externalTrafficPolicy}`,
    rules: ['F-064'],
    objects: [slot.exposed({ externalTrafficPolicy }), ...slot.slices(here)],
    checks: loopbackChecks(slot, { IPv4: served }),
  })),
  () => ({
    name: 'no other machine reaches the loopback network of the node, though its packets are routed',
    rules: ['F-059'],
    objects: [],
    checks: [
      flowCheck(
        'neighbour',
        { protocol: 'TCP', address: '127.0.0.1', port: privatePort },
        { kind: 'dropped' },
      ),
      flowCheck(
        'node',
        { protocol: 'TCP', address: '127.0.0.1', port: privatePort },
        { kind: 'answer', by: [`127.0.0.1 ${privatePort}`], sees: { address: '127.0.0.1' } },
      ),
    ],
  }),
]

/** The node port of a Service without endpoints refuses by a rule, which must not come before the guard of the loopback network. */
export const guardedLoopbackCase: CaseAt = (slot) => ({
  name: 'no other machine is refused at the loopback network of the node by a node port without endpoints',
  rules: ['F-059', 'F-053'],
  objects: [slot.exposed()],
  checks: slot.flows
    .filter(({ family }) => family === 'IPv4')
    .flatMap((flow) => {
      const target = { ...slot.to('nodePort', flow), address: loopback.IPv4 }
      return [
        flowCheck('neighbour', target, { kind: 'dropped' }),
        flowCheck('node', target, { kind: 'refused' }),
      ]
    }),
})

export const noLoopbackCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'a node port does not answer on the loopback',
    rules: ['F-064'],
    objects: [slot.exposed(), ...slot.slices(here)],
    checks: loopbackChecks(slot, { IPv4: 'refused' }),
  }),
]

/** Which address of node-a takes node ports; the other one refuses. */
export function nodePortAddressCase(
  name: string,
  serving: Readonly<Record<'IPv4' | 'IPv6', readonly Pair[]>>,
): CaseAt {
  return (slot) => ({
    name,
    rules: ['F-060', 'F-061', 'F-063'],
    objects: [slot.exposed(), ...slot.slices(here)],
    checks: families.flatMap((family) =>
      [addresses.node, secondNodeAddress].flatMap((own) =>
        nodePortChecks(slot, own, family, serving[family].includes(own) ? served : 'refused'),
      ),
    ),
  })
}

/** The health check port is where node ports are (F-066). */
export const healthAddressCase: CaseAt = (slot) => ({
  name: 'a health check answers on the addresses that take node ports, and on no other',
  rules: ['F-066', 'F-092'],
  objects: [healthService(slot), ...slot.slices(here)],
  checks: [...healthReplies(slot, 1, secondNodeAddress), ...healthPortRefuses(slot)],
})

/** Segments that conntrack knows nothing of, on their way to a pod (F-058). */
export function strayCase(expect: 'arrives' | 'dropped'): CaseAt {
  return () => ({
    name: `a segment that belongs to no connection: ${expect}`,
    rules: ['F-058'],
    objects: [],
    checks: families.map((family) => ({
      kind: 'stray',
      from: 'outside',
      to: { address: addresses.a1[family], port: serverPorts[0] ?? 0 },
      expect,
    })),
  })
}

/** On a node whose own firewall lets nothing in and nothing through. */
export const closedFirewallCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'what is masqueraded passes a firewall that forwards nothing, with its replies',
    rules: ['F-057'],
    objects: [slot.exposed(), ...slot.slices(here)],
    checks: slot.flowsTo(externalFrontends, 'outside', served),
  }),
  (slot) => ({
    name: 'a pod that is its own server passes as well',
    rules: ['F-050', 'F-057'],
    objects: [slot.exposed({ externalTrafficPolicy: 'Local' }), ...slot.slices(here)],
    checks: slot.flowsTo(['clusterIP', 'loadBalancer'], 'a0', served),
  }),
  (slot) => ({
    name: 'what is not masqueraded is the business of that firewall',
    rules: ['F-057'],
    objects: [slot.exposed({ externalTrafficPolicy: 'Local' }), ...slot.slices(here)],
    checks: slot.flowsTo(['loadBalancer'], 'outside', 'dropped'),
  }),
  (slot) => ({
    name: 'the health check port is let in',
    rules: ['F-018', 'F-092'],
    objects: [healthService(slot), ...slot.slices(here)],
    checks: healthReplies(slot, 1),
  }),
]

const healthPortOffset = 3

export function healthPort(slot: Slot): number {
  return slot.nodePort(healthPortOffset)
}

function healthService(slot: Slot): ReturnType<Slot['exposed']> {
  return slot.exposed({ externalTrafficPolicy: 'Local', healthCheckNodePort: healthPort(slot) })
}

/** The exact reply to any request, as kube-proxy writes it. */
function healthReplies(slot: Slot, localEndpoints: number, own = addresses.node): readonly HttpCheck[] {
  const lines = [
    '{',
    '\t"service": {',
    '\t\t"namespace": "default",',
    `\t\t"name": "${slot.name()}"`,
    '\t},',
    `\t"localEndpoints": ${localEndpoints},`,
    '\t"serviceProxyHealthy": true',
    '}',
  ]
  return families.flatMap((family) =>
    (['GET', 'POST'] as const).map((method) => ({
      kind: 'http',
      method,
      from: 'outside',
      to: { address: own[family], port: healthPort(slot) },
      status: localEndpoints > 0 ? 200 : 503,
      headers: {
        'content-type': 'application/json',
        'x-content-type-options': 'nosniff',
        'x-load-balancing-endpoint-weight': `${localEndpoints}`,
      },
      body: lines.join('\n'),
    })),
  )
}

function healthPortRefuses(slot: Slot): readonly Check[] {
  return families.map((family) =>
    flowCheck(
      'outside',
      { protocol: 'TCP', address: addresses.node[family], port: healthPort(slot) },
      { kind: 'refused' },
    ),
  )
}

export const healthCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'a health check counts the addresses of ready endpoints here, and follows them',
    rules: ['F-018', 'F-092', 'F-093', 'F-094'],
    objects: [
      healthService(slot),
      ...slot.slices(['a0', 'a1', { place: 'a2', ready: false, serving: true, terminating: true }, 'b0']),
    ],
    checks: healthReplies(slot, 2),
    steps: [
      { do: 'set', objects: [healthService(slot), ...slot.slices(['b0'])] },
      { do: 'until', checks: healthReplies(slot, 0) },
      { do: 'set', objects: [slot.exposed(), ...slot.slices(['b0'])] },
      { do: 'until', checks: healthPortRefuses(slot) },
    ],
  }),
  (slot) => ({
    name: 'without policy Local there is no health check',
    rules: ['F-018'],
    objects: [slot.exposed({ healthCheckNodePort: healthPort(slot) }), ...slot.slices(here)],
    checks: healthPortRefuses(slot),
  }),
]

/** Packets with a foreign mark on the bit that kube-proxy has by default, when the agent was given another one (F-046). */
export const foreignMarkCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'a foreign mark on another bit asks for no masquerading',
    rules: ['F-046'],
    objects: [slot.exposed({ externalTrafficPolicy: 'Local' }), ...slot.slices(here)],
    checks: slot.flowsTo(externalFrontends, 'outside', { by: here, sees: 'kept' }),
  }),
]

/** A Service whose port is on all frontends but has one protocol alone: others on the same number stay untouched. */
export const singleProtocolCase: CaseAt = (slot) => ({
  name: 'the same number in a protocol that the Service does not have is not translated',
  rules: ['F-020'],
  objects: [
    slot.exposed({
      ports: slot.protocols
        .slice(0, 1)
        .map((protocol) =>
          port(servicePort, { name: protocol.toLowerCase(), protocol, nodePort: slot.nodePort() }),
        ),
    }),
    ...slot.slices(here),
  ],
  checks: slot.flows
    .filter(({ protocol }) => protocol !== slot.protocols[0])
    .flatMap((flow) =>
      frontends.map((frontend: Frontend) =>
        flowCheck('outside', slot.to(frontend, flow), {
          kind: frontend === 'nodePort' ? 'refused' : 'dropped',
        }),
      ),
    ),
})
