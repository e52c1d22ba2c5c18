// The cluster of bench/state.ts as objects of an API server, in its encoding.
import type { Document, Kind } from '../../test/support/api-shapes.js'
import { protobufWriter } from '../../test/support/api-writer.js'
import type { Size } from '../stage/manifests.js'
import { realServer, realServersOf, vip } from '../state.js'

/** First number of the endpoints that changes add. No Service has one of them at the start. */
const firstNewReal = 0x80000
/** Text in each Service and EndpointSlice that a reader skips, in place of managedFields and the like. */
const skipped = { Service: 'x'.repeat(700), EndpointSlice: 'x'.repeat(700) }

function metadata(kind: 'Service' | 'EndpointSlice', name: string, labels: Document): Document {
  return {
    namespace: 'default',
    name,
    uid: '6f1d6a8e-6a67-4c4c-9a52-0f6ab5c4f1de',
    labels,
    managedFields: [{ manager: 'kube-controller-manager', operation: skipped[kind], fieldsType: 'FieldsV1' }],
  }
}

export function serviceDocument(index: number): Document {
  return {
    metadata: metadata('Service', `service-${index}`, { app: `app-${index}` }),
    spec: {
      type: 'ClusterIP',
      clusterIP: vip(index),
      clusterIPs: [vip(index)],
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      sessionAffinity: 'None',
      internalTrafficPolicy: 'Cluster',
      ports: [{ name: '', port: 80, protocol: 'TCP', targetPort: { intVal: 8080 } }],
      selector: { app: `app-${index}` },
    },
  }
}

export function sliceDocument(
  index: number,
  addresses: readonly string[],
  annotations: Document = {},
): Document {
  const labels = { app: `app-${index}`, 'kubernetes.io/service-name': `service-${index}` }
  return {
    metadata: { ...metadata('EndpointSlice', `service-${index}-a`, labels), annotations },
    addressType: 'IPv4',
    ports: [{ name: '', port: 8080, protocol: 'TCP' }],
    endpoints: addresses.map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: 'node-b',
      zone: 'zone-b',
      targetRef: { kind: 'Pod', namespace: 'default', name: `app-${index}-7d4b9c6f5-x2x9q` },
    })),
  }
}

const node: Document = {
  metadata: { name: 'node-a' },
  spec: { podCIDR: '10.128.0.0/24', podCIDRs: ['10.128.0.0/24'] },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
}

/** The document with a resource version. Versions begin with 1, in the order of the list. */
export function withVersion(document: Document, version: number): Document {
  return { ...document, metadata: { ...Object(document['metadata']), resourceVersion: String(version) } }
}

/** The stream of a watch that begins with all objects of a kind, in pieces of a few hundred objects. */
export function streamedList({ services, reals }: Size, kind: Kind): readonly Buffer[] {
  const count = kind === 'Node' ? 1 : services
  const pieces: Buffer[] = []
  const perPiece = 256
  for (let first = 0; first < count; first += perPiece) {
    const events: Buffer[] = []
    for (let i = first; i < Math.min(first + perPiece, count); i++)
      events.push(protobufWriter.event('ADDED', kind, withVersion(documentOf(kind, i, reals), i + 1)))
    pieces.push(Buffer.concat(events))
  }
  const end = { resourceVersion: String(services + 1), annotations: { 'k8s.io/initial-events-end': 'true' } }
  return [...pieces, protobufWriter.event('BOOKMARK', kind, { metadata: end })]
}

function documentOf(kind: Kind, index: number, reals: number): Document {
  if (kind === 'Service') return serviceDocument(index)
  return kind === 'Node' ? node : sliceDocument(index, realServersOf(index, reals))
}

/** Change number `change`: a slice whose first endpoint differs. */
export function changedSlice({ services, reals }: Size, change: number): Change {
  const index = services - 1 - (change % services)
  const endpoint = realServer(firstNewReal + (change % firstNewReal))
  const document = sliceDocument(index, [endpoint, ...realServersOf(index, reals).slice(1)])
  const version = services + 2 + change
  const event = protobufWriter.event('MODIFIED', 'EndpointSlice', withVersion(document, version))
  return { vip: vip(index), endpoint, events: [['EndpointSlice', event]] }
}

/** Change number `change`: Service `index`, which the list lacks, comes or goes with its slice. */
export function changedService(
  { services, reals }: Size,
  {
    index,
    type,
    change,
  }: { readonly index: number; readonly type: 'ADDED' | 'DELETED'; readonly change: number },
): Change {
  const version = services + 2 + change
  const addresses = realServersOf(index, reals)
  const eventOf = (kind: 'Service' | 'EndpointSlice', document: Document): readonly [Kind, Buffer] => [
    kind,
    protobufWriter.event(type, kind, withVersion(document, version)),
  ]
  const service = eventOf('Service', serviceDocument(index))
  const slice = eventOf('EndpointSlice', sliceDocument(index, addresses))
  // A Service without endpoints is refused by an ICMP message, and a client on the same machine waits 200 ms then.
  const events = type === 'ADDED' ? [slice, service] : [service, slice]
  return { vip: vip(index), endpoint: addresses[0] ?? '', events }
}

export interface Change {
  readonly vip: string
  readonly endpoint: string
  /** The encoded events, each with its frame, and their kinds. */
  readonly events: readonly (readonly [Kind, Buffer])[]
}
