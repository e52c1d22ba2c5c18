// Addresses and numbers at which another machine would answer: excluded traffic arrives nowhere, and other traffic arrives there.
import { port } from '../../support/objects.js'
import { cidr } from '../../support/routes.js'
import type { FlowCheck } from './case.js'
import { type CaseAt, expected, flowCheck, type FlowExpectation, servicePort, type Slot } from './slot.js'
import { addresses, elsewhere, families, hostNetworkPort, type Pair, type Place } from './world.js'

/** No NAT between client and machine: it answers, and sees the client's own address. */
type Answer = FlowExpectation | 'by itself'

/** Flows to a machine that has an address of its own. */
function flowsToMachine(slot: Slot, machine: Pair, from: Place, answer: Answer): readonly FlowCheck[] {
  return slot.flows.map(({ family, protocol }) => {
    const address = machine[family]
    const expect =
      answer === 'by itself'
        ? ({ kind: 'answer', by: [`${address} ${servicePort}`], sees: 'kept' } as const)
        : expected(answer, family)
    return flowCheck(from, { protocol, address, port: servicePort }, expect)
  })
}

function ingress(machine: Pair, ipMode: 'VIP' | 'Proxy') {
  return families.map((family) => ({ ip: machine[family], ipMode }))
}

export const elsewhereCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'an address of a load balancer in mode Proxy is left to the balancer, one in mode VIP is served',
    rules: ['F-009'],
    objects: [
      slot.exposed({
        loadBalancerIngress: [
          ...ingress(slot.address('loadBalancer'), 'VIP'),
          ...ingress(elsewhere.proxied, 'Proxy'),
        ],
        loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8:2::/64'],
      }),
      ...slot.slices(['a0']),
    ],
    checks: [
      ...slot.flowsTo(['loadBalancer'], 'outside', { by: ['a0'], sees: 'node' }),
      // In none of the ranges: they guard addresses of mode VIP alone.
      ...flowsToMachine(slot, elsewhere.proxied, 'a1', 'by itself'),
      ...flowsToMachine(slot, elsewhere.proxied, 'node', 'by itself'),
    ],
  }),
  (slot) => ({
    name: 'traffic that the source ranges exclude does not leave the node for the balancer itself',
    rules: ['F-056'],
    objects: [
      slot.exposed({
        loadBalancerIngress: ingress(elsewhere.guarded, 'VIP'),
        loadBalancerSourceRanges: ['192.168.62.0/24', 'fd00:192:168:62::/64'],
      }),
      ...slot.slices(['a0']),
    ],
    checks: [
      ...flowsToMachine(slot, elsewhere.guarded, 'neighbour', { by: ['a0'], sees: 'node' }),
      ...(['a1', 'b1', 'node'] as const).flatMap((from) =>
        flowsToMachine(slot, elsewhere.guarded, from, 'dropped'),
      ),
    ],
  }),
  (slot) => ({
    name: 'traffic without an endpoint under policy Local does not leave the node',
    rules: ['F-054'],
    objects: [
      slot.service({
        clusterIP: elsewhere.internal.IPv4,
        clusterIPs: Object.values(elsewhere.internal),
        externalIPs: Object.values(elsewhere.external),
        internalTrafficPolicy: 'Local',
        externalTrafficPolicy: 'Local',
      }),
      ...slot.slices(['b0']),
    ],
    checks: [
      ...(['a1', 'node', 'neighbour'] as const).flatMap((from) =>
        flowsToMachine(slot, elsewhere.internal, from, 'dropped'),
      ),
      ...flowsToMachine(slot, elsewhere.external, 'neighbour', 'dropped'),
      ...flowsToMachine(slot, elsewhere.external, 'a1', { by: ['b0'], sees: 'kept' }),
    ],
  }),
]

/** In a group of its own: a ServiceCIDR counts for all cases of a group. */
export const unknownAddressCase: CaseAt = (slot) => {
  const cidrs = families.map((family) => cidr(`${elsewhere.guarded[family]}/${family === 'IPv4' ? 32 : 128}`))
  return {
    name: 'an address in the ServiceCIDRs that no Service has is not translated',
    rules: ['F-055'],
    objects: [{ kind: 'ServiceCIDR', namespace: '', name: 'elsewhere', cidrs }],
    checks: (['a1', 'node'] as const).flatMap((from) =>
      flowsToMachine(slot, elsewhere.guarded, from, 'by itself'),
    ),
  }
}

/** For an agent that does not allow them. */
export const closedExternalIPCase: CaseAt = (slot) => ({
  name: 'external IPs that the feature gate does not allow are left alone, the other frontends are served',
  rules: ['F-011'],
  objects: [
    slot.exposed({
      externalIPs: Object.values(elsewhere.external),
      loadBalancerIngress: ingress(slot.address('loadBalancer'), 'VIP'),
    }),
    ...slot.slices(['a0']),
  ],
  checks: [
    ...flowsToMachine(slot, elsewhere.external, 'a1', 'by itself'),
    ...flowsToMachine(slot, elsewhere.external, 'node', 'by itself'),
    ...slot.flowsTo(['clusterIP'], 'a1', { by: ['a0'], sees: 'kept' }),
    ...slot.flowsTo(['nodePort', 'loadBalancer'], 'outside', { by: ['a0'], sees: 'node' }),
  ],
})

function flowsToHostPort(from: Place, expect: FlowExpectation): readonly FlowCheck[] {
  return families.map((family) =>
    flowCheck(
      from,
      { protocol: 'TCP', address: addresses.node[family], port: hostNetworkPort },
      expected(expect, family),
    ),
  )
}

/**
 * In a group of its own: kube-proxy refuses by this number after translation as well, and so what a backend in the host's
 * network gets.
 */
export const occupiedNodePortCase: CaseAt = (slot) => {
  const ports = [port(servicePort, { name: 'tcp', nodePort: hostNetworkPort })]
  return {
    name: 'a node port has its number to itself: without endpoints it refuses, though a server of the node listens there',
    rules: ['F-008', 'F-053'],
    objects: [slot.service({ type: 'NodePort', ports })],
    checks: (['outside', 'a1', 'node'] as const).flatMap((from) => flowsToHostPort(from, 'refused')),
    steps: [
      { do: 'set', objects: [slot.service({ type: 'NodePort', ports }), ...slot.slices(['a0'])] },
      { do: 'until', checks: flowsToHostPort('outside', { by: ['a0'], sees: 'node' }) },
    ],
  }
}
