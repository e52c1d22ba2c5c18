// Session affinity: a client keeps its server, over all frontends of a port, until it has been away for long enough.
import type { AffinityCheck } from './case.js'
import { type CaseAt, externalFrontends, frontends, servicePort, type Slot, targetPort } from './slot.js'
import { type Family, type Place, type Protocol, server } from './world.js'

const everywhere: readonly Place[] = ['a0', 'a1', 'b0', 'b1']
/** Longer than the shortest existing time-out. */
const pauseMs = 1300

export function withAffinity(slot: Slot, seconds: number, which = 0): ReturnType<Slot['exposed']> {
  return slot.exposed({ sessionAffinity: 'ClientIP', sessionAffinityTimeoutSeconds: seconds }, which)
}

function servers(family: Family, places: readonly Place[]): readonly string[] {
  return places.map((place) => server(place, family, targetPort))
}

function clusterIPTarget(slot: Slot, family: Family, protocol: Protocol) {
  return { protocol, address: slot.address('clusterIP')[family], port: servicePort }
}

/** A client that was sent to a0 before another server existed. */
export function staysWithFirst(slot: Slot, which = 0): readonly AffinityCheck[] {
  return slot.flows.map((flow) => ({
    kind: 'affinity',
    from: 'a2',
    to: frontends.map((frontend) => slot.to(frontend, flow, which)),
    by: servers(flow.family, ['a0']),
  }))
}

export const affinityCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'a client keeps its server over every frontend of a port',
    rules: ['F-019', 'F-040'],
    objects: [withAffinity(slot, 600), ...slot.slices(everywhere)],
    checks: slot.flows.flatMap((flow) =>
      (['a2', 'outside'] as const).map((from) => ({
        kind: 'affinity',
        from,
        to: frontends.map((frontend) => slot.to(frontend, flow)),
        by: servers(flow.family, everywhere),
      })),
    ),
  }),
  (slot) => ({
    name: 'under policy Local a client keeps its server among those here',
    rules: ['F-019', 'F-040'],
    objects: [
      { ...withAffinity(slot, 600), externalTrafficPolicy: 'Local', internalTrafficPolicy: 'Local' },
      ...slot.slices(everywhere),
    ],
    checks: slot.flows.map((flow) => ({
      kind: 'affinity',
      from: 'outside',
      to: frontends.map((frontend) => slot.to(frontend, flow)),
      by: servers(flow.family, ['a0', 'a1']),
    })),
  }),
  (slot) => ({
    name: 'under external policy Local pods and the node keep a server of all, other clients one of those here',
    rules: ['F-019', 'F-040', 'F-051'],
    objects: [{ ...withAffinity(slot, 600), externalTrafficPolicy: 'Local' }, ...slot.slices(everywhere)],
    checks: slot.flows.flatMap((flow) =>
      (['a2', 'node', 'outside'] as const).map((from) => ({
        kind: 'affinity',
        from,
        to: externalFrontends.map((frontend) => slot.to(frontend, flow)),
        by: servers(flow.family, from === 'outside' ? ['a0', 'a1'] : everywhere),
      })),
    ),
  }),
  (slot) => ({
    name: 'a client whose server goes away gets another one and keeps that',
    rules: ['F-019', 'F-032'],
    objects: [withAffinity(slot, 600), ...slot.slices(['a0'])],
    checks: slot.flowsTo(['clusterIP'], 'a2', { by: ['a0'], sees: 'kept' }),
    steps: [
      { do: 'set', objects: [withAffinity(slot, 600), ...slot.slices(['b0', 'b1'])] },
      {
        do: 'until',
        checks: slot.flows.map(({ family, protocol }) => ({
          kind: 'affinity',
          from: 'a2',
          to: [clusterIPTarget(slot, family, protocol)],
          by: servers(family, ['b0', 'b1']),
        })),
      },
    ],
  }),
  (slot) => ({
    name: 'a client keeps its server while others come',
    rules: ['F-019', 'F-040'],
    objects: [withAffinity(slot, 600), ...slot.slices(['a0'])],
    checks: staysWithFirst(slot),
    steps: [
      {
        do: 'set',
        objects: [
          withAffinity(slot, 600),
          ...slot.slices(everywhere),
          slot.service({}, 1),
          ...slot.slices(['a1'], {}, 1),
        ],
      },
      // Of the same file: when it is served, the others are there as well.
      { do: 'until', checks: slot.flowsTo(['clusterIP'], 'a2', { by: ['a1'], sees: 'kept' }, 1) },
      { do: 'check', checks: staysWithFirst(slot) },
    ],
  }),
  (slot) => ({
    name: 'the session ends after its time-out',
    rules: ['F-019', 'F-040'],
    objects: [withAffinity(slot, 1), ...slot.slices(everywhere)],
    checks: slot.flows.map(({ family, protocol }) => ({
      kind: 'expiry',
      from: 'a2',
      to: clusterIPTarget(slot, family, protocol),
      pauseMs,
    })),
  }),
]
