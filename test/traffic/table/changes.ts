// Changes while clients are connected: endpoints come and go, Services change and are removed, flows go on or move.
import type { AskCheck, Check, Step } from './case.js'
import {
  type CaseAt,
  expected,
  externalFrontends,
  type FlowExpectation,
  type Frontend,
  frontends,
  type Slot,
} from './slot.js'
import { families, familyOf, type Place, secondNodeAddress } from './world.js'

type Objects = Extract<Step, { readonly do: 'set' }>['objects']

function set(...objects: Objects): Step {
  return { do: 'set', objects }
}

function until(...checks: readonly Check[]): Step {
  return { do: 'until', checks }
}

function check(...checks: readonly Check[]): Step {
  return { do: 'check', checks }
}

/** Sessions of one protocol to each frontend in both families, from pod a2, which is never an endpoint here. */
export function sessions(
  slot: Slot,
  protocol: 'TCP' | 'UDP' | 'SCTP',
  kinds: readonly Frontend[],
  expect: FlowExpectation,
): readonly AskCheck[] {
  if (!slot.protocols.includes(protocol)) return []
  return kinds.flatMap((kind) =>
    families.map((family) => ({
      kind: 'ask' as const,
      session: `${slot.name()} ${protocol} ${kind} ${family}`,
      from: 'a2' as const,
      to: slot.to(kind, { family, protocol }),
      expect: expected(kind === 'clusterIP' ? keptOnClusterIP(expect) : expect, family),
    })),
  )
}

/** Policy Cluster masquerades what comes by external frontends, and a pod of the cluster nowhere else. */
function keptOnClusterIP(expect: FlowExpectation): FlowExpectation {
  return typeof expect === 'string' ? expect : { ...expect, sees: 'kept' }
}

export function by(...places: readonly Place[]): FlowExpectation {
  return { by: places, sees: 'node' }
}

/** UDP sessions to the node port at the address of node-a that is not its own in the Node object. */
function sessionsBySecondAddress(slot: Slot, expect: FlowExpectation): readonly AskCheck[] {
  return sessions(slot, 'UDP', ['nodePort'], expect).map((session) => ({
    ...session,
    to: { ...session.to, address: secondNodeAddress[familyOf(session.to.address)] },
  }))
}

const local = { externalTrafficPolicy: 'Local', internalTrafficPolicy: 'Local' } as const

const notReady = { place: 'a0', ready: false, serving: false } as const

/** UDP clients keep their port, and so their entry in conntrack: it must go when it leads nowhere. */
const udpCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'a UDP flow whose backend goes away is served by another',
    rules: ['F-070', 'F-071', 'F-072'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: sessions(slot, 'UDP', frontends, by('a0')),
    steps: [
      set(slot.exposed(), ...slot.slices(['b0'])),
      until(...sessions(slot, 'UDP', frontends, by('b0'))),
    ],
  }),
  (slot) => ({
    name: 'a UDP flow whose backend stays is left alone when another one goes',
    rules: ['F-071'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: sessions(slot, 'UDP', frontends, by('a0')),
    steps: [
      set(slot.exposed(), ...slot.slices(['a0', 'b0'])),
      until(...slot.flowsTo(['clusterIP'], 'a1', { by: ['a0', 'b0'], sees: 'kept' })),
      check(...sessions(slot, 'UDP', frontends, by('a0'))),
    ],
  }),
  (slot) => ({
    name: 'a UDP flow stays with a backend that terminates and still serves',
    rules: ['F-071'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: sessions(slot, 'UDP', frontends, by('a0')),
    steps: [
      set(
        slot.exposed(),
        ...slot.slices([{ place: 'a0', ready: false, serving: true, terminating: true }, 'b0']),
      ),
      until(...slot.flowsTo(['clusterIP'], 'a1', { by: ['b0'], sees: 'kept' })),
      check(...sessions(slot, 'UDP', frontends, by('a0'))),
    ],
  }),
  (slot) => ({
    name: 'a UDP flow stays with a backend that is not ready while no other serves, and moves when one does',
    rules: ['F-071', 'beyond kube-proxy'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: sessions(slot, 'UDP', frontends, by('a0')),
    steps: [
      set(slot.exposed(), ...slot.slices([notReady])),
      until(...slot.flowsTo(['clusterIP'], 'a1', 'refused')),
      check(...sessions(slot, 'UDP', frontends, by('a0'))),
      set(slot.exposed(), ...slot.slices([notReady, 'b0'])),
      until(...sessions(slot, 'UDP', frontends, by('b0'))),
    ],
  }),
  (slot) => ({
    name: 'a UDP flow of a Service that loses its last endpoint is refused',
    rules: ['F-070', 'beyond kube-proxy'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: sessions(slot, 'UDP', frontends, by('a0')),
    steps: [set(slot.exposed(), ...slot.slices([])), until(...sessions(slot, 'UDP', frontends, 'refused'))],
  }),
  (slot) => ({
    name: 'a UDP flow of a Service that is deleted ends',
    rules: ['F-070', 'beyond kube-proxy'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: sessions(slot, 'UDP', frontends, by('a0')),
    steps: [
      set(),
      until(
        ...sessions(slot, 'UDP', ['clusterIP', 'loadBalancer', 'externalIP'], 'dropped'),
        ...sessions(slot, 'UDP', ['nodePort'], 'refused'),
      ),
    ],
  }),
  (slot) => ({
    name: 'a UDP flow by a frontend that its Service loses ends, and the others go on',
    rules: ['F-070', 'beyond kube-proxy'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: sessions(slot, 'UDP', frontends, by('a0')),
    steps: [
      set(slot.service(), ...slot.slices(['a0'])),
      until(
        ...sessions(slot, 'UDP', ['loadBalancer', 'externalIP'], 'dropped'),
        ...sessions(slot, 'UDP', ['nodePort'], 'refused'),
      ),
      check(...sessions(slot, 'UDP', ['clusterIP'], by('a0'))),
    ],
  }),
  (slot) => ({
    name: 'a UDP flow under policy Local ends with the last server here, and is served by the next',
    rules: ['F-054', 'F-071'],
    objects: [slot.exposed(local), ...slot.slices(['a0', 'b0'])],
    checks: sessions(slot, 'UDP', ['clusterIP'], by('a0')),
    steps: [
      set(slot.exposed(local), ...slot.slices(['b0'])),
      until(...sessions(slot, 'UDP', ['clusterIP'], 'dropped')),
      set(slot.exposed(local), ...slot.slices(['a1', 'b0'])),
      until(...sessions(slot, 'UDP', ['clusterIP'], by('a1'))),
    ],
  }),
  (slot) => ({
    name: 'a UDP flow to a node port moves with its backend at every address of the node',
    rules: ['F-063', 'F-071'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: sessionsBySecondAddress(slot, by('a0')),
    steps: [set(slot.exposed(), ...slot.slices(['b0'])), until(...sessionsBySecondAddress(slot, by('b0')))],
  }),
  (slot) => ({
    name: 'a UDP flow that began before its Service existed is served by it',
    rules: ['F-071'],
    objects: [],
    checks: [
      ...sessions(slot, 'UDP', ['clusterIP', 'loadBalancer', 'externalIP'], 'dropped'),
      ...sessions(slot, 'UDP', ['nodePort'], 'refused'),
    ],
    steps: [
      set(slot.exposed(), ...slot.slices(['a0'])),
      until(...sessions(slot, 'UDP', frontends, by('a0'))),
    ],
  }),
  (slot) => ({
    name: 'a UDP flow that was refused for want of endpoints is served by the first that comes',
    rules: ['F-053', 'F-071'],
    objects: [slot.exposed()],
    checks: sessions(slot, 'UDP', frontends, 'refused'),
    steps: [
      set(slot.exposed(), ...slot.slices(['a0'])),
      until(...sessions(slot, 'UDP', frontends, by('a0'))),
    ],
  }),
]

const tcpCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'an established connection outlives the endpoint in the Service, new ones go elsewhere',
    rules: ['F-039'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: connections(slot, by('a0')),
    steps: [
      set(slot.exposed(), ...slot.slices(['b0'])),
      until(...slot.flowsTo(frontends, 'a1', by('b0')).map((flow) => keptFlow(slot, flow))),
      check(...connections(slot, by('a0'))),
    ],
  }),
  (slot) => ({
    name: 'established connections are not disturbed by changes of other Services',
    rules: ['F-117'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: connections(slot, by('a0')),
    steps: [1, 2, 3].flatMap((which) => [
      set(slot.exposed(), ...slot.slices(['a0']), slot.service({}, which), ...slot.slices(['a1'], {}, which)),
      until(...slot.flowsTo(['clusterIP'], 'a2', { by: ['a1'], sees: 'kept' }, which)),
      check(...connections(slot, by('a0'))),
    ]),
  }),
]

/** Sessions of the protocols that have connections. */
export function connections(slot: Slot, expect: FlowExpectation): readonly AskCheck[] {
  return (['TCP', 'SCTP'] as const).flatMap((protocol) => sessions(slot, protocol, frontends, expect))
}

type Flow = ReturnType<Slot['flowsTo']>[number]

/** A flow of a pod as it is on the cluster IP: not masqueraded. */
function keptFlow(slot: Slot, flow: Flow): Flow {
  const isClusterIP = Object.values(slot.address('clusterIP')).includes(flow.to.address)
  return isClusterIP && flow.expect.kind === 'answer'
    ? { ...flow, expect: { ...flow.expect, sees: 'kept' } }
    : flow
}

const serviceChanges: readonly CaseAt[] = [
  (slot) => ({
    name: 'endpoints that come and go are followed',
    rules: ['F-025', 'F-032'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' }),
    steps: [
      set(slot.exposed(), ...slot.slices(['a0', 'b0', 'b1'])),
      until(...slot.flowsTo(['clusterIP'], 'a1', { by: ['a0', 'b0', 'b1'], sees: 'kept' })),
      set(slot.exposed()),
      until(...slot.flowsTo(frontends, 'a1', 'refused')),
      set(slot.exposed(), ...slot.slices(['b0'])),
      until(...slot.flowsTo(['loadBalancer'], 'outside', { by: ['b0'], sees: 'node' })),
    ],
  }),
  (slot) => ({
    name: 'a change of the traffic policies takes effect, both ways',
    rules: ['F-012', 'F-013', 'F-049'],
    objects: [slot.exposed(), ...slot.slices(['a0', 'b0'])],
    checks: slot.flowsTo(externalFrontends, 'outside', { by: ['a0', 'b0'], sees: 'node' }),
    steps: [
      set(
        slot.exposed({ externalTrafficPolicy: 'Local', internalTrafficPolicy: 'Local' }),
        ...slot.slices(['a0', 'b0']),
      ),
      until(
        ...slot.flowsTo(externalFrontends, 'outside', { by: ['a0'], sees: 'kept' }),
        ...slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' }),
      ),
      set(slot.exposed(), ...slot.slices(['a0', 'b0'])),
      until(...slot.flowsTo(externalFrontends, 'outside', { by: ['a0', 'b0'], sees: 'node' })),
    ],
  }),
  (slot) => ({
    name: 'source ranges that are added close the load balancer, and open it again when they go',
    rules: ['F-017', 'F-056'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: slot.flowsTo(['loadBalancer'], 'b1', { by: ['a0'], sees: 'node' }),
    steps: [
      set(
        slot.exposed({ loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8:2::/64'] }),
        ...slot.slices(['a0']),
      ),
      until(...slot.flowsTo(['loadBalancer'], 'b1', 'dropped')),
      check(...slot.flowsTo(['loadBalancer'], 'outside', { by: ['a0'], sees: 'node' })),
      set(slot.exposed(), ...slot.slices(['a0'])),
      until(...slot.flowsTo(['loadBalancer'], 'b1', { by: ['a0'], sees: 'node' })),
    ],
  }),
  (slot) => ({
    name: 'the label of another proxy takes a Service away, and gives it back when it goes',
    rules: ['F-005'],
    objects: [slot.service(), ...slot.slices(['a0'])],
    checks: slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' }),
    steps: [
      set(
        slot.service({ labels: { 'service.kubernetes.io/service-proxy-name': 'other' } }),
        ...slot.slices(['a0']),
      ),
      until(...slot.flowsTo(['clusterIP'], 'a1', 'dropped')),
      set(slot.service(), ...slot.slices(['a0'])),
      until(...slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' })),
    ],
  }),
  (slot) => ({
    name: 'frontends that a Service loses are no longer translated',
    rules: ['F-008', 'F-009', 'F-010'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: slot.flowsTo(externalFrontends, 'outside', { by: ['a0'], sees: 'node' }),
    steps: [
      set(slot.service(), ...slot.slices(['a0'])),
      until(
        ...slot.flowsTo(['loadBalancer', 'externalIP'], 'outside', 'dropped'),
        ...slot.flowsTo(['nodePort'], 'outside', 'refused'),
      ),
      check(...slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' })),
    ],
  }),
]

/** Two Services want the same frontends: the smaller key has them; the other one takes over when it goes (ADR 7). */
const conflictCases: readonly CaseAt[] = [
  (slot) => {
    const shared = {
      ports: slot.ports({ nodePort: slot.nodePort() }),
      externalIPs: families.map((family) => slot.address('externalIP')[family]),
      loadBalancerIngress: families.map((family) => ({
        ip: slot.address('loadBalancer')[family],
        ipMode: 'VIP' as const,
      })),
    }
    const winner = [slot.exposed(shared), ...slot.slices(['a0'])]
    const loser = [slot.exposed(shared, 1), ...slot.slices(['b0'], {}, 1)]
    const both = slot.flowsTo(externalFrontends, 'outside', { by: ['a0'], sees: 'node' })
    return {
      name: 'of two Services with the same external frontends one has them all, and the other takes over',
      rules: ['F-001', 'ADR 7'],
      objects: [...winner, ...loser],
      checks: [...both, ...slot.flowsTo(['clusterIP'], 'a1', { by: ['b0'], sees: 'kept' }, 1)],
      steps: [
        set(...loser),
        until(...slot.flowsTo(externalFrontends, 'outside', { by: ['b0'], sees: 'node' })),
        set(...winner, ...loser),
        until(...both),
      ],
    }
  },
  (slot) => {
    const shared = { externalIPs: families.map((family) => slot.address('externalIP')[family]) }
    const winner = [slot.exposed(shared)]
    const loser = [slot.exposed(shared, 1), ...slot.slices(['b0'], {}, 1)]
    return {
      name: 'the owner of a frontend has it even without endpoints: it refuses, and no other server answers',
      rules: ['F-053', 'ADR 7'],
      objects: [...winner, ...loser],
      checks: slot.flowsTo(['externalIP'], 'outside', 'refused'),
      steps: [set(...loser), until(...slot.flowsTo(['externalIP'], 'outside', { by: ['b0'], sees: 'node' }))],
    }
  },
  // Issue 35, A1: the Service that sorts first took all three.
  (slot) => {
    const externalIPs = Object.values(slot.address('externalIP'))
    const taken = [slot.address('clusterIP', 1), slot.address('loadBalancer', 1)].flatMap((address) =>
      families.map((family) => address[family]),
    )
    const thief = [
      slot.service({ externalIPs: [...taken, ...externalIPs], createdSeconds: 2 }),
      ...slot.slices(['a0']),
    ]
    const victim = [slot.exposed({ externalIPs, createdSeconds: 1 }, 1), ...slot.slices(['b0'], {}, 1)]
    const sees = { by: ['b0'], sees: 'node' } as const
    return {
      name: "external IPs take no cluster IP and no load balancer's address, and among equals the older Service wins",
      rules: ['F-001', 'ADR 7'],
      objects: [...thief, ...victim],
      checks: [
        ...slot.flowsTo(['clusterIP'], 'a1', { by: ['b0'], sees: 'kept' }, 1),
        ...slot.flowsTo(['loadBalancer'], 'outside', sees, 1),
        ...slot.flowsTo(['externalIP'], 'outside', sees),
        ...slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' }),
      ],
    }
  },
]

export const changeCases: readonly CaseAt[] = [...udpCases, ...tcpCases, ...serviceChanges, ...conflictCases]
