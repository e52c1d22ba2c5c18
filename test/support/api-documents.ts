// Objects of the Kubernetes API in the server's form: examples, and random objects that the types allow.
import * as fc from 'fast-check'
import type { Document, Kind } from './api-shapes.js'

/** Metadata for a name or `namespace/name`. */
function metadataOf(name: string): Document {
  const [namespace = 'default', plain = name] = name.includes('/') ? name.split('/') : ['default', name]
  return { namespace, name: plain, uid: `uid of ${name}`, managedFields: [{ manager: 'kubectl' }] }
}

export function apiService(name: string, clusterIP: string, spec: Document = {}): Document {
  const ports = [{ name: 'http', protocol: 'TCP', port: 80, targetPort: { intVal: 8080 } }]
  return {
    metadata: metadataOf(name),
    spec: { clusterIP, clusterIPs: [clusterIP], type: 'ClusterIP', selector: { app: name }, ports, ...spec },
  }
}

export function apiSlice(name: string, service: string, addresses: readonly string[]): Document {
  return {
    metadata: { ...metadataOf(name), labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
  }
}

export function apiNode(name: string, podCIDR = '10.244.0.0/24'): Document {
  return { metadata: { name }, spec: { podCIDR, podCIDRs: [podCIDR] } }
}

export function apiServiceCidr(name: string, cidrs: readonly string[]): Document {
  return { metadata: { name }, spec: { cidrs } }
}

/** Mostly valid values, sometimes invalid ones. Both encodings must give the same result. */
function mostly<T, U>(right: fc.Arbitrary<T>, wrong: fc.Arbitrary<U>): fc.Arbitrary<T | U> {
  return fc.oneof({ arbitrary: right, weight: 9 }, { arbitrary: wrong, weight: 1 })
}

function maybe<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.option(arbitrary, { nil: undefined })
}

function some<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T[] | undefined> {
  return maybe(fc.array(arbitrary, { maxLength: 4 }))
}

const anyText = fc.oneof(fc.constant(''), fc.string({ unit: 'grapheme', maxLength: 12 }))
const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?$/)
const int32 = fc.oneof(fc.constant(0), fc.integer())
const port = mostly(fc.integer({ min: 0, max: 65_535 }), int32)
const ip = mostly(fc.oneof(fc.ipV4(), fc.ipV6()), anyText)
const protocol = mostly(fc.constantFrom('TCP', 'UDP', 'SCTP'), anyText)
const policy = mostly(fc.constantFrom('Cluster', 'Local'), anyText)
const map = maybe(
  fc.dictionary(
    mostly(
      fc.constantFrom(
        'kubernetes.io/service-name',
        'service.kubernetes.io/headless',
        'service.kubernetes.io/service-proxy-name',
        'topology.kubernetes.io/zone',
        'viaduct.dev/ipvs-scheduler',
        'viaduct.dev/ipvs-weights',
      ),
      anyText.filter((key) => key !== '__proto__'),
    ),
    anyText,
    { noNullPrototype: true },
  ),
)
const names = some(fc.record({ name: anyText }))

const metadata = fc.record({
  name: mostly(label, anyText),
  namespace: mostly(label, anyText),
  uid: anyText,
  resourceVersion: fc.nat().map(String),
  generation: fc.integer(),
  creationTimestamp: maybe(fc.constantFrom('2026-01-01T00:00:00Z', '2040-02-29T23:59:59Z')),
  deletionTimestamp: maybe(fc.constant('2026-01-01T00:00:00Z')),
  labels: map,
  annotations: map,
  finalizers: some(anyText),
})

const spec = fc.record({
  ports: some(
    fc.record({
      name: maybe(mostly(label, anyText)),
      protocol: maybe(protocol),
      port,
      targetPort: maybe(fc.record({ type: fc.nat(1), intVal: int32, strVal: anyText })),
      nodePort: maybe(port),
      appProtocol: maybe(anyText),
    }),
  ),
  selector: map,
  clusterIP: maybe(mostly(ip, fc.constant('None'))),
  type: maybe(mostly(fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'), anyText)),
  externalIPs: some(ip),
  sessionAffinity: maybe(mostly(fc.constantFrom('None', 'ClientIP'), anyText)),
  loadBalancerSourceRanges: some(anyText),
  externalTrafficPolicy: maybe(policy),
  healthCheckNodePort: maybe(port),
  publishNotReadyAddresses: maybe(fc.boolean()),
  sessionAffinityConfig: maybe(
    fc.record({
      clientIP: maybe(
        fc.record({ timeoutSeconds: maybe(mostly(fc.integer({ min: 1, max: 86_400 }), int32)) }),
      ),
    }),
  ),
  clusterIPs: some(ip),
  ipFamilies: some(mostly(fc.constantFrom('IPv4', 'IPv6'), anyText)),
  internalTrafficPolicy: maybe(policy),
})

const ingress = fc.record({
  ip: maybe(ip),
  hostname: maybe(anyText),
  ipMode: maybe(mostly(fc.constantFrom('VIP', 'Proxy'), anyText)),
})

/** Any object that the Go types allow, by kind. Absent fields are undefined. */
export const anyObject: Readonly<Record<Kind, fc.Arbitrary<Document>>> = {
  Service: fc.record({
    metadata,
    spec,
    status: maybe(fc.record({ loadBalancer: maybe(fc.record({ ingress: some(ingress) })) })),
  }),
  EndpointSlice: fc.record({
    metadata,
    addressType: mostly(fc.constantFrom('IPv4', 'IPv6', 'FQDN'), anyText),
    ports: some(
      fc.record({ name: maybe(mostly(label, anyText)), protocol: maybe(protocol), port: maybe(port) }),
    ),
    endpoints: some(
      fc.record({
        addresses: mostly(fc.array(ip, { minLength: 1, maxLength: 2 }), fc.constant([])),
        conditions: maybe(
          fc.record({
            ready: maybe(fc.boolean()),
            serving: maybe(fc.boolean()),
            terminating: maybe(fc.boolean()),
          }),
        ),
        hostname: maybe(anyText),
        targetRef: maybe(fc.record({ kind: anyText, name: anyText })),
        nodeName: maybe(anyText),
        zone: maybe(anyText),
        hints: maybe(fc.record({ forZones: names, forNodes: names })),
      }),
    ),
  }),
  Node: fc.record({
    metadata,
    spec: maybe(
      fc.record({
        podCIDR: maybe(anyText),
        podCIDRs: some(anyText),
        unschedulable: maybe(fc.boolean()),
        taints: some(fc.record({ key: anyText, value: maybe(anyText), effect: anyText })),
      }),
    ),
    status: maybe(fc.record({ addresses: some(fc.record({ type: anyText, address: anyText })) })),
  }),
  ServiceCIDR: fc.record({
    metadata,
    spec: maybe(fc.record({ cidrs: some(mostly(fc.constantFrom('10.96.0.0/16', 'fd00::/112'), anyText)) })),
  }),
}
