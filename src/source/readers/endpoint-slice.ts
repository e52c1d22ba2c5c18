import { Type, type Static, type TSchema } from '@sinclair/typebox'
import type { EndpointConditions, EndpointSlice, SliceEndpoint, SlicePort } from '../objects.js'
import * as f from './fields.js'
import type { FieldProblem } from '../../api/index.js'

const largestPort = 65535
/** Label of an EndpointSlice: the Service that it belongs to. */
export const serviceNameLabel = 'kubernetes.io/service-name'
/** Annotation of an EndpointSlice: the time of its last change, RFC 3339. */
export const lastChangeAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time'

const names = f.list(f.mapping({ name: f.text }))

function documentWith<A extends TSchema>(address: A) {
  return f.mapping({
    metadata: f.mapping({ ...f.metadata, annotations: f.annotations }),
    ports: f.list(
      f.mapping({
        name: f.portName,
        protocol: f.protocol,
        port: Type.Optional(f.wholeNumber(0, largestPort)),
      }),
    ),
    endpoints: f.list(
      f.mapping({
        addresses: Type.Array(address, { ...f.expected('a list of addresses'), minItems: 1 }),
        nodeName: Type.Optional(f.text),
        conditions: Type.Optional(f.mapping({ ready: f.flag, serving: f.flag, terminating: f.flag })),
        hints: Type.Optional(f.mapping({ forZones: names, forNodes: names })),
      }),
    ),
  })
}

const readers = {
  IPv4: f.fieldsBy(documentWith(f.address('ipv4'))),
  IPv6: f.fieldsBy(documentWith(f.address('ipv6'))),
  FQDN: f.fieldsBy(documentWith(f.text)),
}
type Fields = Static<ReturnType<typeof documentWith<typeof f.text>>>
type PortFields = NonNullable<Fields['ports']>[number]
type EndpointFields = NonNullable<Fields['endpoints']>[number]
const readAddressType = f.fieldsBy(f.mapping({ addressType: f.oneOf('IPv4', 'IPv6', 'FQDN') }))

/** Returns a discovery.k8s.io/v1 EndpointSlice with the API server's defaults (conditions: F-029), or its problems. */
export function readEndpointSlice(document: unknown): EndpointSlice | readonly FieldProblem[] {
  const type = readAddressType(document)
  if ('problems' in type) return type.problems
  const { addressType } = type.fields
  const reading = readers[addressType](document)
  if ('problems' in reading) return reading.problems
  const { metadata, ports, endpoints } = reading.fields
  const labels = f.keptLabels(metadata.labels)
  const lastChangeMs = f.timeOf(metadata.annotations?.[lastChangeAnnotation])
  return {
    kind: 'EndpointSlice',
    namespace: metadata.namespace ?? 'default',
    name: metadata.name,
    labels,
    serviceName: metadata.labels?.[serviceNameLabel],
    addressType,
    lastChangeMs,
    ports: f.kept(ports).map(buildPort),
    endpoints: f.kept(endpoints).map(buildEndpoint),
  }
}

// The API server's default for an absent name is the empty name.
function buildPort({ name, protocol, port }: PortFields): SlicePort {
  return { name: name ?? '', protocol: protocol ?? 'TCP', port }
}

// Values before the literal, here and elsewhere on the way of every object: V8 makes one with calls in it much slower.
function buildEndpoint({ addresses, nodeName, conditions, hints }: EndpointFields): SliceEndpoint {
  const address = addresses[0] ?? ''
  const zoneHints = namesOf(hints?.forZones)
  const nodeHints = namesOf(hints?.forNodes)
  const { ready, serving, terminating } = conditions ?? noConditions
  const state = shared(ready ?? true, serving ?? true, terminating ?? false)
  return { address, nodeName, conditions: state, zoneHints, nodeHints }
}

const noConditions: NonNullable<EndpointFields['conditions']> = {}

function namesOf(hints: readonly { readonly name: string }[] | undefined): readonly string[] {
  return f.kept(hints?.map(({ name }) => name))
}

/** All endpoints in the same state share one object. */
function shared(ready: boolean, serving: boolean, terminating: boolean): EndpointConditions {
  const state = (ready ? 4 : 0) + (serving ? 2 : 0) + (terminating ? 1 : 0)
  return (states[state] ??= { ready, serving, terminating })
}

const states: EndpointConditions[] = []
