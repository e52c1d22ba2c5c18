// Served and ignored Services: kinds, labels, ports, families, addresses.
import { endpoint, port, slice } from '../../support/objects.js'
import {
  type CaseAt,
  expected,
  externalFrontends,
  flowCheck,
  frontends,
  servicePort,
  targetPort,
} from './slot.js'
import { addresses, families, hostNetworkPort, secondNodeAddress, server } from './world.js'

const here = ['a0'] as const
const everywhere = ['a0', 'b0'] as const

/** The last byte with leading zeros. */
function sloppy(address: string): string {
  return address.replace(/\.(\d+)$/, (_, last) => `.${last.padStart(3, '0')}`)
}

export const serviceCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'a headless Service is ignored',
    rules: ['F-002', 'F-006'],
    objects: [
      slot.service({ clusterIP: 'None', clusterIPs: ['None'] }),
      ...slot.slices(here, { labels: { 'service.kubernetes.io/headless': '' } }),
    ],
    checks: slot.flowsTo(['clusterIP'], 'a1', 'dropped'),
  }),
  (slot) => ({
    name: 'an ExternalName Service is ignored, even with a cluster IP and a node port',
    rules: ['F-002'],
    objects: [
      slot.service({ type: 'ExternalName', ports: slot.ports({ nodePort: slot.nodePort() }) }),
      ...slot.slices(here),
    ],
    checks: [
      ...slot.flowsTo(['clusterIP'], 'a1', 'dropped'),
      // Not translated: the node has no server of its own there.
      ...slot.flowsTo(['nodePort'], 'outside', 'refused'),
    ],
  }),
  (slot) => ({
    name: 'a Service with the label of another proxy is ignored at any value',
    rules: ['F-005'],
    objects: [
      slot.service({ labels: { 'service.kubernetes.io/service-proxy-name': '' } }),
      ...slot.slices(here),
      slot.service({ labels: { 'service.kubernetes.io/service-proxy-name': 'other' } }, 1),
      ...slot.slices(here, {}, 1),
    ],
    checks: [0, 1].flatMap((which) => slot.flowsTo(['clusterIP'], 'a1', 'dropped', which)),
  }),
  (slot) => ({
    name: 'external IPs work on a ClusterIP Service, and its external policy Local counts',
    rules: ['F-010', 'F-012'],
    objects: [
      slot.service({
        externalIPs: families.map((family) => slot.address('externalIP')[family]),
        externalTrafficPolicy: 'Local',
      }),
      ...slot.slices(everywhere),
    ],
    checks: [
      ...slot.flowsTo(['externalIP'], 'outside', { by: here, sees: 'kept' }),
      ...slot.flowsTo(['clusterIP'], 'a1', { by: everywhere, sees: 'kept' }),
    ],
  }),
  (slot) => ({
    name: 'each of several external addresses is served',
    rules: ['F-009', 'F-010'],
    objects: [
      slot.exposed({
        externalIPs: [0, 1].flatMap((which) => Object.values(slot.address('externalIP', which))),
        loadBalancerIngress: [0, 1].flatMap((which) =>
          Object.values(slot.address('loadBalancer', which)).map((ip) => ({ ip, ipMode: 'VIP' as const })),
        ),
      }),
      ...slot.slices(here),
    ],
    checks: [0, 1].flatMap((which) =>
      slot.flowsTo(['loadBalancer', 'externalIP'], 'outside', { by: here, sees: 'node' }, which),
    ),
  }),
  (slot) => ({
    name: 'an external IP that the node itself has is served to all clients, the node included',
    rules: ['F-010', 'F-051'],
    objects: [slot.exposed({ externalTrafficPolicy: 'Local' }), ...slot.slices(everywhere)],
    nodeAddresses: Object.values(slot.address('externalIP')),
    checks: [
      ...slot.flowsTo(['externalIP'], 'outside', { by: here, sees: 'kept' }),
      ...slot.flowsTo(['externalIP'], 'a1', { by: everywhere, sees: 'kept' }),
      ...slot.flowsTo(['externalIP'], 'node', { by: everywhere, sees: 'node' }),
    ],
  }),
  (slot) => ({
    name: 'a port that the Service does not have is not translated',
    rules: ['F-055'],
    objects: [slot.service(), ...slot.slices(here)],
    checks: slot.flows.map((flow) =>
      flowCheck('a1', { ...slot.to('clusterIP', flow), port: servicePort + 1 }, { kind: 'dropped' }),
    ),
  }),
  (slot) => ({
    name: 'several named ports go each to its own target port',
    rules: ['F-001', 'F-026'],
    objects: [
      slot.service({
        ports: slot.protocols.flatMap((protocol) => [
          port(80, { name: `${protocol.toLowerCase()}-web`, protocol }),
          port(443, { name: `${protocol.toLowerCase()}-tls`, protocol }),
        ]),
      }),
      ...slot.slices(here, {
        ports: slot.protocols.flatMap((protocol) => [
          { name: `${protocol.toLowerCase()}-tls`, protocol, port: 8443 },
          { name: `${protocol.toLowerCase()}-web`, protocol, port: 8080 },
        ]),
      }),
    ],
    checks: slot.flows.flatMap((flow) =>
      [
        { from: 80, to: 8080 },
        { from: 443, to: 8443 },
      ].map(({ from, to }) =>
        flowCheck(
          'a1',
          { ...slot.to('clusterIP', flow), port: from },
          expected({ by: here, sees: 'kept', port: to }, flow.family),
        ),
      ),
    ),
  }),
  (slot) => ({
    name: 'ports of one number and different protocols are independent',
    rules: ['F-001', 'F-020'],
    objects: [
      slot.service(),
      // Only the first protocol of the table has an endpoint.
      ...slot.slices(here, {
        ports: slot.protocols
          .slice(0, 1)
          .map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: targetPort })),
      }),
    ],
    checks: slot.flows.map((flow) =>
      flowCheck(
        'a1',
        slot.to('clusterIP', flow),
        expected(flow.protocol === slot.protocols[0] ? { by: here, sees: 'kept' } : 'refused', flow.family),
      ),
    ),
  }),
  (slot) => ({
    name: 'an unnamed port finds the unnamed port of the slice',
    rules: ['F-001', 'F-026'],
    objects: [
      slot.service({ ports: slot.ports({ name: '' }).slice(0, 1) }),
      ...slot.slices(here, {
        ports: slot.protocols.slice(0, 1).map((protocol) => ({ name: '', protocol, port: targetPort })),
      }),
    ],
    checks: slot.flows
      .filter(({ protocol }) => protocol === slot.protocols[0])
      .map((flow) =>
        flowCheck('a1', slot.to('clusterIP', flow), expected({ by: here, sees: 'kept' }, flow.family)),
      ),
  }),
  (slot) => ({
    name: 'the families are independent: endpoints in one do not help the other',
    rules: ['F-003', 'F-021'],
    objects: [slot.service(), slot.slice('IPv6', here)],
    checks: slot.flows.map((flow) =>
      flowCheck(
        'a1',
        slot.to('clusterIP', flow),
        expected(flow.family === 'IPv6' ? { by: here, sees: 'kept' } : 'refused', flow.family),
      ),
    ),
  }),
  (slot) => ({
    name: 'a Service of one family ignores slices and external addresses of the other',
    rules: ['F-003', 'F-009', 'F-010', 'F-021'],
    objects: [
      slot.exposed({ clusterIPs: [slot.address('clusterIP').IPv4], ipFamilies: ['IPv4'] }),
      ...slot.slices(here),
    ],
    checks: [...slot.flowsTo(['loadBalancer', 'externalIP'], 'outside', { by: here, sees: 'node' })].map(
      (check) =>
        check.to.address.includes(':') ? flowCheck(check.from, check.to, { kind: 'dropped' }) : check,
    ),
  }),
  (slot) => {
    const zeroed = {
      clusterIP: sloppy(slot.address('clusterIP').IPv4),
      externalIP: sloppy(slot.address('externalIP').IPv4),
    }
    return {
      name: 'addresses and networks with leading zeros mean what people meant',
      rules: ['F-004', 'F-027'],
      // F-027: the endpoint's address as well.
      objects: [
        slot.exposed({
          clusterIP: zeroed.clusterIP,
          clusterIPs: [zeroed.clusterIP],
          ipFamilies: ['IPv4'],
          externalIPs: [zeroed.externalIP],
          loadBalancerIngress: [{ ip: sloppy(slot.address('loadBalancer').IPv4), ipMode: 'VIP' }],
          loadBalancerSourceRanges: ['192.000.002.000/024'],
        }),
        slot.slice('IPv4', here, { endpoints: [endpoint(sloppy(addresses.a0.IPv4))] }),
      ],
      checks: [
        ...slot.flowsTo(frontends, 'outside', { by: here, sees: 'node' }),
        ...slot.flowsTo(['loadBalancer'], 'a1', 'dropped'),
      ].filter((check) => !check.to.address.includes(':')),
    }
  },
  (slot) => ({
    name: 'endpoints come from all slices of the Service',
    rules: ['F-025', 'F-031'],
    objects: [
      slot.service(),
      ...slot.slices(['a0']),
      ...slot.slices(['b0', 'b1']).map((other) => ({ ...other, name: `${other.name}-more` })),
    ],
    checks: slot.flowsTo(['clusterIP'], 'a1', { by: ['a0', 'b0', 'b1'], sees: 'kept' }),
  }),
  (slot) => ({
    name: 'an external IP that is no address is skipped, the others are served',
    rules: ['F-010'],
    objects: [
      slot.service({
        externalIPs: ['', 'example.org', ...families.map((family) => slot.address('externalIP')[family])],
      }),
      ...slot.slices(here),
    ],
    checks: slot.flowsTo(['externalIP'], 'outside', { by: here, sees: 'node' }),
  }),
  (slot) => ({
    // Every endpoint is written with a second address (manifest.ts).
    name: 'only the first address of an endpoint counts, and slices of host names not at all',
    rules: ['F-021', 'F-027'],
    objects: [
      slot.service(),
      ...slot.slices(here),
      slot.slice('IPv4', [], {
        name: `${slot.name()}-names`,
        addressType: 'FQDN',
        endpoints: [endpoint('pod.example')],
      }),
    ],
    checks: slot.flowsTo(['clusterIP'], 'a1', { by: here, sees: 'kept' }),
  }),
  (slot) => ({
    name: 'a node port is served on every address of the node',
    rules: ['F-008', 'F-060', 'F-062', 'F-063'],
    objects: [slot.exposed(), ...slot.slices(here)],
    checks: slot.flows.flatMap((flow) =>
      [addresses.node, secondNodeAddress].map((own) =>
        flowCheck(
          'outside',
          { ...slot.to('nodePort', flow), address: own[flow.family] },
          expected({ by: here, sees: 'node' }, flow.family),
        ),
      ),
    ),
  }),
  (slot) => ({
    name: "a backend in the host's network is reached, and sees a client of policy Local as it is",
    rules: ['F-028', 'F-049'],
    objects: [
      slot.exposed({
        ports: [port(servicePort, { name: 'tcp', nodePort: slot.nodePort() })],
        externalTrafficPolicy: 'Local',
      }),
      ...families.map((family) =>
        slice(
          `${slot.name()}-${family.toLowerCase()}`,
          slot.name(),
          [endpoint(addresses.node[family], { nodeName: 'node-a' })],
          { ports: [{ name: 'tcp', protocol: 'TCP', port: hostNetworkPort }] },
        ),
      ),
    ],
    checks: families.flatMap((family) => [
      ...externalFrontends.map((frontend) =>
        flowCheck('outside', slot.to(frontend, { family, protocol: 'TCP' }), {
          kind: 'answer',
          by: [server('node', family, hostNetworkPort)],
          sees: 'kept',
        }),
      ),
      flowCheck('a1', slot.to('clusterIP', { family, protocol: 'TCP' }), {
        kind: 'answer',
        by: [server('node', family, hostNetworkPort)],
        sees: 'kept',
      }),
    ]),
  }),
]
