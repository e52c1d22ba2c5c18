// Random sets of objects with few names and few addresses, so that objects often conflict.
import * as fc from 'fast-check'
import type { EndpointSlice, ObjectEvent, Service } from '../../src/source/index.js'
import { endpoint, port, remove, service, set, slice } from './objects.js'

const serviceNames = ['a', 'b', 'c', 'd'] as const
const clusterIPs = ['10.96.0.1', '10.96.0.2', '10.96.0.3'] as const
const endpointIPs = ['10.1.0.1', '10.1.0.2', '10.1.0.3', '10.1.0.4', '10.1.0.5'] as const

/** An address of the machine. */
export const machineAddress = '192.0.2.1'

const ports = fc.constantFrom(
  [port(80)],
  [port(80), port(53, { name: 'dns', protocol: 'UDP' as const })],
  [port(53, { name: 'dns', protocol: 'UDP' as const })],
  [port(81)],
  [port(80, { nodePort: 30080 })],
  // The numbers of the node port and of the health check port.
  [port(30080)],
  [port(30100)],
)

/** External frontends of a Service. Most Services have none. */
const exposure = fc.constantFrom<Partial<Service>>(
  {},
  {},
  {},
  { externalIPs: ['203.0.113.7', 'fd00::2:7'] },
  { externalIPs: [machineAddress, '203.0.113.8'] },
  { type: 'NodePort', externalTrafficPolicy: 'Local' },
  {
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 30100,
    loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'VIP' }],
    loadBalancerSourceRanges: ['192.0.2.0/24', 'nonsense'],
  },
)

const anyService: fc.Arbitrary<Service> = fc
  .record({
    name: fc.constantFrom(...serviceNames),
    address: fc.constantFrom(...clusterIPs),
    ports,
    sessionAffinity: fc.constantFrom('None' as const, 'ClientIP' as const),
    internalTrafficPolicy: fc.constantFrom('Cluster' as const, 'Cluster' as const, 'Local' as const),
    isDualStack: fc.boolean(),
    exposure,
    scheduling: fc.constantFrom(
      {},
      {},
      // Always rr: another scheduler is tried before its first use, which is a write.
      { scheduler: 'rr', weights: 'here=3' },
      { schedulerFlags: 'sh-port' },
      { weights: 'here' },
    ),
  })
  .map(({ name, address, isDualStack, exposure: exposed, ...others }) => {
    const rest = { ...others, ...exposed }
    const dual = { clusterIPs: [address, `fd00::${address.at(-1)}`], ipFamilies: ['IPv4', 'IPv6'] as const }
    return service(name, address, isDualStack ? { ...rest, ...dual } : rest)
  })

/** Services whose addresses change hands and roles. */
export const anyBusyService = fc
  .record({
    name: fc.constantFrom('a', 'b', 'c', 'd'),
    clusterIP: fc.constantFrom('10.96.0.1', '10.96.0.2', '203.0.113.7'),
    externalIPs: fc.subarray(['203.0.113.7', '10.96.0.2', '10.96.0.1']),
    ingress: fc.subarray(['203.0.113.7', '203.0.113.8']),
    ranges: fc.subarray(['0.0.0.0/0', '192.0.2.0/24', '192.0.2.7/24', '198.51.100.7/32']),
    type: fc.constantFrom('NodePort' as const, 'LoadBalancer' as const),
    nodePort: fc.constantFrom(0, 30080, 30081),
    externalTrafficPolicy: fc.constantFrom('Cluster' as const, 'Local' as const),
    internalTrafficPolicy: fc.constantFrom('Cluster' as const, 'Local' as const),
    sessionAffinity: fc.constantFrom('None' as const, 'ClientIP' as const),
    sessionAffinityTimeoutSeconds: fc.constantFrom(60, 600),
    createdSeconds: fc.constantFrom(undefined, 1, 2),
  })
  .map(({ name, clusterIP, ingress, ranges, nodePort, ...rest }): Service =>
    service(name, clusterIP, {
      ...rest,
      ports: [port(80, { nodePort })],
      loadBalancerIngress: ingress.map((ip) => ({ ip, ipMode: 'VIP' as const })),
      loadBalancerSourceRanges: ranges,
    }),
  )

const anyEndpoint = fc
  .record({
    last: fc.constantFrom(...endpointIPs),
    nodeName: fc.constantFrom('here', 'there', undefined),
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
    zoneHints: fc.constantFrom([], ['a'], ['b']),
  })
  .map(({ last, ...rest }) => endpoint(last, rest))

const anySlice: fc.Arbitrary<EndpointSlice> = fc
  .record({
    name: fc.constantFrom('s1', 's2', 's3', 's4', 's5'),
    serviceName: fc.constantFrom(...serviceNames, undefined),
    endpoints: fc.array(anyEndpoint, { maxLength: 4 }),
    isIpv6: fc.boolean(),
    portNames: fc.subarray(['', 'dns'] as const),
    // Mostly the same: slices of one Service rarely differ in them.
    webPort: fc.constantFrom(8080, 8080, 8080, 53, 9090),
    dnsPort: fc.constantFrom(53, 53, 53, 8080, 5353),
  })
  .map(({ name, serviceName, endpoints, isIpv6, portNames, webPort, dnsPort }) => {
    const moved = endpoints.map((one) => ({ ...one, address: `fd01::${one.address.at(-1) ?? ''}` }))
    const slicePorts = portNames.map((portName) =>
      portName === ''
        ? { name: '', protocol: 'TCP' as const, port: webPort }
        : { name: 'dns', protocol: 'UDP' as const, port: dnsPort },
    )
    const addressType = isIpv6 ? ('IPv6' as const) : ('IPv4' as const)
    return slice(name, serviceName, isIpv6 ? moved : endpoints, { addressType, ports: slicePorts })
  })

/** One change of an object. */
export const anyEvent: fc.Arbitrary<ObjectEvent> = fc.oneof(
  { arbitrary: anyService.map(set), weight: 4 },
  { arbitrary: anySlice.map(set), weight: 5 },
  { arbitrary: fc.constantFrom(...serviceNames).map((name) => remove('Service', name)), weight: 1 },
  {
    arbitrary: fc.constantFrom('s1', 's2', 's3', 's4', 's5').map((name) => remove('EndpointSlice', name)),
    weight: 1,
  },
)

/** Batches of events from a source. */
export const anyHistory = fc.array(fc.array(anyEvent, { maxLength: 5 }), { maxLength: 8 })

/** Events with the objects that exist at the end of a history. */
export function finalObjects(history: readonly (readonly ObjectEvent[])[]): readonly ObjectEvent[] {
  const objects = new Map<string, ObjectEvent>()
  for (const event of history.flat()) {
    if (event.type === 'set')
      objects.set(`${event.object.kind} ${event.object.namespace}/${event.object.name}`, event)
    if (event.type === 'delete') objects.delete(`${event.kind} ${event.key.namespace}/${event.key.name}`)
  }
  return [...objects.values()]
}
