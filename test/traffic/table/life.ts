// Events in the life of the agent while clients are connected, in order.
import type { NodeObject } from '../../../src/source/index.js'
import { staysWithFirst, withAffinity } from './affinity.js'
import { by, connections, sessions } from './changes.js'
import { type CaseAt, frontends, nodeObject } from './slot.js'
import { zone } from './world.js'

function inZone(name: string): NodeObject {
  return { ...nodeObject, labels: { 'topology.kubernetes.io/zone': name } }
}

/** kube-proxy programmed node-a, has gone, and leaves its rules to the agent. */
export const takeoverCases: readonly CaseAt[] = [
  (slot) => {
    const flows = [...connections(slot, by('a0')), ...sessions(slot, 'UDP', frontends, by('a0'))]
    const sticky = withAffinity(slot, 600, 1)
    return {
      name: "connections, UDP flows and affinity go on over a takeover from kube-proxy's rules",
      rules: ['F-039', 'F-040', 'F-071', 'F-120'],
      objects: [slot.exposed(), ...slot.slices(['a0']), sticky, ...slot.slices(['a0'], {}, 1)],
      checks: [...flows, ...staysWithFirst(slot, 1)],
      steps: [
        {
          do: 'restart',
          objects: [
            slot.exposed(),
            ...slot.slices(['a0', 'b0']),
            sticky,
            ...slot.slices(['a0', 'b0'], {}, 1),
          ],
        },
        // A mode that does not write over kube-proxy's rules removes them once its own are in force.
        {
          do: 'until',
          checks: slot.flowsTo(['clusterIP'], 'a1', { by: ['a0', 'b0'], sees: 'kept' }),
        },
        { do: 'check', checks: [...flows, ...staysWithFirst(slot, 1)] },
      ],
    }
  },
]

export const lifeCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'established connections and UDP flows go on over a restart of the agent',
    rules: ['F-039', 'F-120'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: [...connections(slot, by('a0')), ...sessions(slot, 'UDP', frontends, by('a0'))],
    steps: [
      { do: 'restart' },
      {
        do: 'check',
        checks: [
          ...connections(slot, by('a0')),
          ...sessions(slot, 'UDP', frontends, by('a0')),
          ...slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' }),
        ],
      },
    ],
  }),
  (slot) => ({
    name: 'a client keeps its server over a restart of the agent',
    rules: ['F-040', 'F-120'],
    objects: [withAffinity(slot, 600), ...slot.slices(['a0'])],
    checks: staysWithFirst(slot),
    steps: [
      { do: 'restart', objects: [withAffinity(slot, 600), ...slot.slices(['a0', 'b0', 'b1'])] },
      { do: 'check', checks: staysWithFirst(slot) },
    ],
  }),
  (slot) => ({
    name: 'what changed while no agent ran is in effect after its start, for UDP flows as well',
    rules: ['F-071', 'F-120'],
    objects: [slot.exposed(), ...slot.slices(['a0'])],
    checks: [...connections(slot, by('a0')), ...sessions(slot, 'UDP', frontends, by('a0'))],
    steps: [
      { do: 'restart', objects: [slot.exposed(), ...slot.slices(['b0'])] },
      {
        do: 'until',
        checks: [
          ...slot.flowsTo(['clusterIP'], 'a1', { by: ['b0'], sees: 'kept' }),
          ...sessions(slot, 'UDP', frontends, by('b0')),
        ],
      },
      { do: 'check', checks: connections(slot, by('a0')) },
    ],
  }),
  (slot) => {
    const endpoints = slot.slices([
      { place: 'a0', zoneHints: [zone] },
      { place: 'b0', zoneHints: ['zone-2'] },
    ])
    return {
      name: 'a node that moves to another zone sends traffic to the endpoints of that zone',
      rules: ['F-036', 'F-038'],
      objects: [slot.service(), ...endpoints],
      checks: slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' }),
      steps: [
        { do: 'set', objects: [slot.service(), ...endpoints, inZone('zone-2')] },
        { do: 'until', checks: slot.flowsTo(['clusterIP'], 'a1', { by: ['b0'], sees: 'kept' }) },
        { do: 'set', objects: [slot.service(), ...endpoints, inZone(zone)] },
        { do: 'until', checks: slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' }) },
      ],
    }
  },
]
