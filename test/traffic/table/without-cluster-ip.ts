// Services without a cluster IP, which an API server does not make and a manifest may have: they are served at what they have.
import type { Service } from '../../../src/source/index.js'
import type { Step } from './case.js'
import { sessions } from './changes.js'
import { type CaseAt, expected, externalFrontends, flowCheck, type Slot } from './slot.js'
import { addresses } from './world.js'

/** A Service that names neither addresses nor families. */
const unnamed = { clusterIP: '', clusterIPs: [], ipFamilies: [] } as const

/** An internal policy that would keep traffic from the only endpoint, if it counted. */
function exposed(slot: Slot, rest: Partial<Service> = {}): Step & { readonly do: 'set' } {
  return {
    do: 'set',
    objects: [slot.exposed({ internalTrafficPolicy: 'Local', ...rest }), ...slot.slices(['b0'])],
  }
}

function external(slot: Slot): Step & { readonly do: 'until' } {
  const answer = { by: ['b0'], sees: 'node' } as const
  return {
    do: 'until',
    checks: (['outside', 'a1'] as const).flatMap((from) => slot.flowsTo(externalFrontends, from, answer)),
  }
}

const flowsGoOn = (slot: Slot) =>
  (['TCP', 'UDP'] as const).flatMap((protocol) =>
    sessions(slot, protocol, externalFrontends, { by: ['b0'], sees: 'node' }),
  )

export const withoutClusterIPCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'a Service without a cluster IP is served at its other frontends, while one comes and goes',
    rules: ['F-002', 'F-013', 'beyond kube-proxy'],
    objects: exposed(slot, unnamed).objects,
    checks: [...flowsGoOn(slot), ...external(slot).checks, ...slot.flowsTo(['clusterIP'], 'a1', 'dropped')],
    steps: [
      exposed(slot, { internalTrafficPolicy: 'Cluster' }),
      { do: 'until', checks: slot.flowsTo(['clusterIP'], 'a1', { by: ['b0'], sees: 'kept' }) },
      { do: 'check', checks: [...flowsGoOn(slot), ...external(slot).checks] },
      exposed(slot, unnamed),
      { do: 'until', checks: slot.flowsTo(['clusterIP'], 'a1', 'dropped') },
      { do: 'check', checks: [...flowsGoOn(slot), ...external(slot).checks] },
    ],
  }),
  (slot) => ({
    name: 'without a cluster IP, external policy Local has the endpoints here, and drops where there are none',
    rules: ['F-012', 'F-015', 'F-034', 'F-054', 'beyond kube-proxy'],
    objects: [
      slot.exposed({ ...unnamed, externalTrafficPolicy: 'Local' }),
      ...slot.slices(['a0', 'b0']),
      slot.exposed({ ...unnamed, externalTrafficPolicy: 'Local' }, 1),
      ...slot.slices(['b0'], {}, 1),
      slot.exposed(unnamed, 2),
    ],
    checks: [
      ...slot.flowsTo(externalFrontends, 'outside', { by: ['a0'], sees: 'kept' }),
      ...slot.flowsTo(externalFrontends, 'a1', { by: ['a0', 'b0'], sees: 'kept' }),
      ...slot.flowsTo(externalFrontends, 'outside', 'dropped', 1),
      ...slot.flowsTo(externalFrontends, 'node', { by: ['b0'], sees: 'node' }, 1),
      ...slot.flowsTo(externalFrontends, 'outside', 'refused', 2),
    ],
  }),
  (slot) => ({
    name: 'node ports alone without a cluster IP are of IPv4, unless ipFamilies says otherwise',
    rules: ['F-003', 'F-008', 'beyond kube-proxy'],
    objects: [
      slot.service({ ...unnamed, type: 'NodePort', ports: slot.ports({ nodePort: slot.nodePort() }) }),
      ...slot.slices(['a0']),
      slot.service(
        {
          ...unnamed,
          ipFamilies: ['IPv6'],
          type: 'NodePort',
          ports: slot.ports({ nodePort: slot.nodePort(1) }),
        },
        1,
      ),
      ...slot.slices(['a0'], {}, 1),
    ],
    checks: [0, 1].flatMap((which) =>
      slot.flows.map(({ family, protocol }) => {
        const isServed = family === (which === 0 ? 'IPv4' : 'IPv6')
        const expect = isServed ? ({ by: ['a0'], sees: 'node' } as const) : 'refused'
        const to = { protocol, address: addresses.node[family], port: slot.nodePort(which) }
        return flowCheck('outside', to, expected(expect, family))
      }),
    ),
  }),
]
