// Which endpoints may answer: conditions, fallback to terminating ones, hints, duplicates, and what happens without any.
import {
  type CaseAt,
  type EndpointSpec,
  externalFrontends,
  type FlowExpectation,
  frontends,
  targetPort,
} from './slot.js'
import { nodeName, otherNodeName, type Place, zone } from './world.js'

const local = { externalTrafficPolicy: 'Local', internalTrafficPolicy: 'Local' } as const
const terminating = { ready: false, serving: true, terminating: true } as const
const gone = { ready: false, serving: false, terminating: true } as const
const notReady = { ready: false, serving: false } as const
const otherZone = 'zone-2'

/** The endpoints that a pod of the node reaches at the cluster IP. */
interface Selection {
  readonly name: string
  readonly rules: readonly string[]
  readonly endpoints: readonly EndpointSpec[]
  readonly by: readonly Place[]
}

const clusterSelections: readonly Selection[] = [
  {
    name: 'an endpoint that is not ready gets nothing',
    rules: ['F-029', 'F-032'],
    endpoints: ['a0', { place: 'b0', ...notReady }],
    by: ['a0'],
  },
  {
    name: 'a terminating endpoint gets nothing while another is ready',
    rules: ['F-032'],
    endpoints: [{ place: 'a0', ...terminating }, 'b0'],
    by: ['b0'],
  },
  {
    name: 'terminating endpoints that still serve take over when none is ready',
    rules: ['F-032', 'F-034'],
    endpoints: [
      { place: 'a0', ...terminating },
      { place: 'b0', ...terminating },
      { place: 'b1', ...gone },
      { place: 'a2', ...notReady },
    ],
    by: ['a0', 'b0'],
  },
  {
    name: 'a serving endpoint that is neither ready nor terminating gets nothing',
    rules: ['F-032'],
    endpoints: [
      { place: 'a0', ...terminating },
      { place: 'b0', ready: false, serving: true },
    ],
    by: ['a0'],
  },
  {
    name: 'of two entries for one address the one that does not terminate counts',
    rules: ['F-030'],
    endpoints: ['a0', { place: 'a0', ...terminating }, { place: 'b0', ...terminating }],
    by: ['a0'],
  },
  {
    name: 'hints for the zone of the node keep traffic in it',
    rules: ['F-036'],
    endpoints: [
      { place: 'a0', zoneHints: [zone] },
      { place: 'b0', zoneHints: [otherZone, zone] },
      { place: 'b1', zoneHints: [otherZone] },
    ],
    by: ['a0', 'b0'],
  },
  {
    name: 'zone hints are ignored when one ready endpoint has none',
    rules: ['F-036'],
    endpoints: [{ place: 'a0', zoneHints: [zone] }, { place: 'b0', zoneHints: [otherZone] }, 'b1'],
    by: ['a0', 'b0', 'b1'],
  },
  {
    name: 'zone hints are ignored when none names the zone of the node',
    rules: ['F-036'],
    endpoints: [
      { place: 'a0', zoneHints: [otherZone] },
      { place: 'b0', zoneHints: ['zone-3'] },
    ],
    by: ['a0', 'b0'],
  },
  {
    name: 'an endpoint that is not ready needs no hint',
    rules: ['F-036'],
    endpoints: [
      { place: 'a0', zoneHints: [zone] },
      { place: 'b0', zoneHints: [otherZone] },
      { place: 'b1', ...notReady },
    ],
    by: ['a0'],
  },
  {
    name: 'hints for the node go before those for the zone',
    rules: ['F-036', 'F-037'],
    endpoints: [
      { place: 'a0', nodeHints: [nodeName], zoneHints: [zone] },
      { place: 'b0', nodeHints: [otherNodeName], zoneHints: [zone] },
    ],
    by: ['a0'],
  },
  {
    name: 'hints for other nodes leave those for the zone in force',
    rules: ['F-036', 'F-037'],
    endpoints: [
      { place: 'a0', nodeHints: [otherNodeName], zoneHints: [zone] },
      { place: 'b0', nodeHints: [otherNodeName], zoneHints: [otherZone] },
    ],
    by: ['a0'],
  },
  {
    name: 'the fallback to terminating endpoints looks at no hints',
    rules: ['F-032', 'F-036'],
    endpoints: [
      { place: 'a0', zoneHints: [zone], ...terminating },
      { place: 'b0', zoneHints: [otherZone], ...terminating },
    ],
    by: ['a0', 'b0'],
  },
]

const localSelections: readonly Selection[] = [
  {
    name: 'under policy Local a terminating endpoint here goes before a ready one elsewhere',
    rules: ['F-033'],
    endpoints: [{ place: 'a0', ...terminating }, 'b0'],
    by: ['a0'],
  },
  {
    name: 'under policy Local a ready endpoint here goes before a terminating one here',
    rules: ['F-033'],
    endpoints: ['a0', { place: 'a2', ...terminating }, 'b0'],
    by: ['a0'],
  },
  {
    name: 'policy Local looks at no hints',
    rules: ['F-033', 'F-036'],
    endpoints: [
      { place: 'a0', zoneHints: [otherZone] },
      { place: 'b0', zoneHints: [zone] },
    ],
    by: ['a0'],
  },
]

function clusterCase({ name, rules, endpoints, by }: Selection): CaseAt {
  return (slot) => ({
    name,
    rules,
    objects: [slot.exposed(), ...slot.slices(endpoints)],
    checks: [
      ...slot.flowsTo(['clusterIP'], 'a1', { by, sees: 'kept' }),
      ...slot.flowsTo(['loadBalancer'], 'outside', { by, sees: 'node' }),
    ],
  })
}

function localCase({ name, rules, endpoints, by }: Selection): CaseAt {
  return (slot) => ({
    name,
    rules,
    objects: [slot.exposed(local), ...slot.slices(endpoints)],
    checks: [
      ...slot.flowsTo(['clusterIP'], 'a1', { by, sees: 'kept' }),
      ...slot.flowsTo(externalFrontends, 'outside', { by, sees: 'kept' }),
    ],
  })
}

/**
 * No endpoint may answer: every frontend refuses every client (F-053). One exception is kube-proxy's: what the node
 * itself sends to external addresses passes no KUBE-EXTERNAL-SERVICES and goes out as it is, here to nowhere.
 */
function refusingCase(name: string, endpoints: readonly EndpointSpec[], policy = {}): CaseAt {
  return (slot) => ({
    name,
    rules: ['F-034', 'F-053'],
    objects: [slot.exposed(policy), ...(endpoints.length === 0 ? [] : slot.slices(endpoints))],
    checks: [
      ...(['a1', 'b1', 'outside'] as const).flatMap((from) => slot.flowsTo(frontends, from, 'refused')),
      ...slot.flowsTo(['clusterIP', 'nodePort'], 'node', 'refused'),
      ...slot.flowsTo(['loadBalancer', 'externalIP'], 'node', 'dropped'),
    ],
  })
}

/** All endpoints are on the other node: policy Local drops what may not go there (F-054), after the short-circuit. */
function absentHereCase(name: string, endpoints: readonly EndpointSpec[]): CaseAt {
  const by: readonly Place[] = ['b0']
  const external: readonly { readonly from: Place; readonly expect: FlowExpectation }[] = [
    { from: 'outside', expect: 'dropped' },
    { from: 'a1', expect: { by, sees: 'kept' } },
    { from: 'node', expect: { by, sees: 'node' } },
  ]
  return (slot) => ({
    name,
    rules: ['F-034', 'F-051', 'F-054'],
    objects: [slot.exposed(local), ...slot.slices(endpoints)],
    checks: [
      ...(['a1', 'b1', 'node', 'outside'] as const).flatMap((from) =>
        slot.flowsTo(['clusterIP'], from, 'dropped'),
      ),
      ...external.flatMap(({ from, expect }) => slot.flowsTo(externalFrontends, from, expect)),
    ],
  })
}

export const endpointCases: readonly CaseAt[] = [
  ...clusterSelections.map(clusterCase),
  ...localSelections.map(localCase),
  refusingCase('a Service without a slice refuses', []),
  refusingCase('a Service whose endpoints are not ready refuses', [
    { place: 'a0', ...notReady },
    { place: 'b0', ...gone },
  ]),
  refusingCase('a Service without endpoints refuses under policy Local too', [], local),
  absentHereCase('without an endpoint here, policy Local drops; the node and its pods reach the others', [
    'b0',
  ]),
  absentHereCase('terminating endpoints elsewhere count as endpoints', [{ place: 'b0', ...terminating }]),
  (slot) => ({
    name: 'internal policy Local without an endpoint here drops, and the outside is served as ever',
    rules: ['F-013', 'F-054'],
    objects: [slot.exposed({ internalTrafficPolicy: 'Local' }), ...slot.slices(['b0'])],
    checks: [
      ...slot.flowsTo(['clusterIP'], 'a1', 'dropped'),
      ...slot.flowsTo(externalFrontends, 'outside', { by: ['b0'], sees: 'node' }),
    ],
  }),
  (slot) => ({
    name: 'endpoints of ports that are zero or have another name count for nothing',
    rules: ['F-026'],
    objects: [
      slot.service(),
      ...slot.slices(['a0'], {
        ports: slot.protocols.flatMap((protocol) => [
          { name: protocol.toLowerCase(), protocol, port: 0 },
          { name: 'other', protocol, port: targetPort },
        ]),
      }),
    ],
    checks: slot.flowsTo(['clusterIP'], 'a1', 'refused'),
  }),
  (slot) => ({
    name: 'a remote pod that is its own server behind node-a sees node-a',
    rules: ['F-050', 'F-051'],
    objects: [slot.exposed(local), ...slot.slices(['b0'])],
    checks: slot.flowsTo(externalFrontends, 'b0', { by: ['b0'], sees: 'node' }),
  }),
]
