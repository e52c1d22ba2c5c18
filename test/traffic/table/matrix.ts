// The full matrix: client x frontend x traffic policy x detection of local traffic. The expected results follow from kube-proxy's
// rules, never from the code of our rooms.
import type { LocalDetection } from './case.js'
import {
  type CaseAt,
  externalFrontends,
  type FlowExpectation,
  type Frontend,
  frontends,
  flowCheck,
  expected,
} from './slot.js'
import { clusterNetwork, type Place } from './world.js'

type Policy = 'Cluster' | 'Local'

/** One pod here and one on the other node; neither of them asks. */
const here: Place = 'a0'
const everywhere: readonly Place[] = ['a0', 'b0']
/** Local pods by three ways in, a pod of the other node, the node itself, and a client outside of the cluster. */
const askers: readonly Place[] = ['a1', 'a2', 'b1', 'node', 'outside']

/** Whether the detector takes this for traffic of a pod of the node; undefined: there is no detector. */
export function isDetected(detection: LocalDetection | undefined, from: Place): boolean | undefined {
  if (detection === undefined) return undefined
  const detected: Readonly<Record<LocalDetection['mode'], readonly Place[]>> = {
    // The cluster's network holds the pods of every node: that is what the mode is known for.
    ClusterCIDR: ['a0', 'a1', 'a2', 'b0', 'b1'],
    NodeCIDR: ['a0', 'a1', 'a2'],
    BridgeInterface: ['a2'],
    InterfaceNamePrefix: ['a0', 'a1'],
  }
  return detected[detection.mode].includes(from)
}

export const ipv4ClusterCIDR: LocalDetection = {
  mode: 'ClusterCIDR',
  networks: { IPv4: clusterNetwork.IPv4 },
}

export interface MatrixAxes {
  readonly detection: LocalDetection | undefined
  readonly masqueradeAll: boolean
}

interface Row extends MatrixAxes {
  readonly from: Place
  readonly frontend: Frontend
  readonly policy: Policy
  readonly endpoints: readonly Place[]
}

/** The result of one cell by the rules. */
function expectation(row: Row): FlowExpectation {
  const local = row.endpoints.filter((place) => place === here)
  if (row.frontend === 'clusterIP') {
    // F-047, F-048; F-013 chooses the endpoints.
    const isOffCluster = isDetected(row.detection, row.from) === false
    const isMasqueraded = row.masqueradeAll || isOffCluster
    return { by: row.policy === 'Local' ? local : row.endpoints, sees: isMasqueraded ? 'node' : 'kept' }
  }
  if (row.policy === 'Cluster') return { by: row.endpoints, sees: 'node' } // F-049
  if (row.from === 'node') return { by: row.endpoints, sees: 'node' } // F-051, host-originated
  if (isDetected(row.detection, row.from) === true) return { by: row.endpoints, sees: 'kept' } // F-051, a pod
  return { by: local, sees: 'kept' }
}

function policies(policy: Policy): {
  readonly externalTrafficPolicy: Policy
  readonly internalTrafficPolicy: Policy
} {
  return { externalTrafficPolicy: policy, internalTrafficPolicy: policy }
}

function askersCase(policy: Policy, axes: MatrixAxes): CaseAt {
  return (slot) => ({
    name: `policy ${policy}: all clients to every frontend`,
    rules: ['F-007', 'F-008', 'F-009', 'F-010', 'F-012', 'F-013', 'F-047', 'F-048', 'F-049', 'F-051'],
    objects: [slot.exposed(policies(policy)), ...slot.slices(everywhere)],
    checks: askers.flatMap((from) =>
      frontends.flatMap((frontend) =>
        slot.flowsTo(
          [frontend],
          from,
          expectation({ ...axes, from, frontend, policy, endpoints: everywhere }),
        ),
      ),
    ),
  })
}

/** A pod that is its own only server: it has to see the node, or its reply would never leave it (F-050). */
function hairpinCase(policy: Policy, axes: MatrixAxes): CaseAt {
  return (slot) => ({
    name: `policy ${policy}: a pod to itself by every frontend`,
    rules: ['F-050'],
    objects: [slot.exposed(policies(policy)), ...slot.slices([here])],
    checks: frontends.flatMap((frontend) => {
      const cell = expectation({ ...axes, from: here, frontend, policy, endpoints: [here] })
      return slot.flows.map((flow) =>
        flowCheck(
          here,
          slot.to(frontend, flow),
          expected(typeof cell === 'string' ? cell : { ...cell, sees: 'node' }, flow.family),
        ),
      )
    }),
  })
}

/** The two policies are independent of each other. */
function mixedCase(internal: Policy, external: Policy, axes: MatrixAxes): CaseAt {
  return (slot) => ({
    name: `internal policy ${internal} with external policy ${external}`,
    rules: ['F-012', 'F-013', 'F-015', 'F-016'],
    objects: [
      slot.exposed({ internalTrafficPolicy: internal, externalTrafficPolicy: external }),
      ...slot.slices(everywhere),
    ],
    checks: (['a1', 'outside'] as const).flatMap((from) => [
      ...slot.flowsTo(
        ['clusterIP'],
        from,
        expectation({ ...axes, from, frontend: 'clusterIP', policy: internal, endpoints: everywhere }),
      ),
      ...externalFrontends.flatMap((frontend) =>
        slot.flowsTo(
          [frontend],
          from,
          expectation({ ...axes, from, frontend, policy: external, endpoints: everywhere }),
        ),
      ),
    ]),
  })
}

/** A detector that knows the networks of IPv4 alone leaves IPv6 without any. */
export const oneFamilyCase: CaseAt = (slot) => ({
  name: 'a cluster network of IPv4 alone: IPv6 has no detector',
  rules: ['F-048', 'F-051'],
  objects: [slot.exposed({ externalTrafficPolicy: 'Local' }), ...slot.slices(everywhere)],
  checks: (['a1', 'outside'] as const).flatMap((from) =>
    frontends.flatMap((frontend) =>
      slot.flows.map((flow) => {
        const axes = { detection: flow.family === 'IPv4' ? ipv4ClusterCIDR : undefined, masqueradeAll: false }
        const policy = frontend === 'clusterIP' ? 'Cluster' : 'Local'
        const cell = expectation({ ...axes, from, frontend, policy, endpoints: everywhere })
        return flowCheck(from, slot.to(frontend, flow), expected(cell, flow.family))
      }),
    ),
  ),
})

/** Every cell, as cases: one for each policy, and for what stands between the cells. */
export function matrix(axes: MatrixAxes): readonly CaseAt[] {
  return [
    askersCase('Cluster', axes),
    askersCase('Local', axes),
    hairpinCase('Cluster', axes),
    hairpinCase('Local', axes),
    mixedCase('Local', 'Cluster', axes),
    mixedCase('Cluster', 'Local', axes),
  ]
}
