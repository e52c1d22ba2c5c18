import * as v from 'valibot'
import type { EndpointConditions, EndpointSlice, SliceEndpoint } from '../objects.js'
import * as f from './fields.js'
import type { FieldProblem } from './fields.js'

const largestPort = 65535
const serviceNameLabel = 'kubernetes.io/service-name'

const names = f.list(f.mapping({ name: f.text }))

function documentWith<A extends v.GenericSchema<string, string>>(address: A) {
  return f.mapping({
    metadata: f.metadata,
    ports: f.list(
      f.mapping({
        // The API server's default of an absent name is the empty one.
        name: v.nullish(v.union([v.literal(''), f.dnsLabel], f.expected('up to 63 of a-z, 0-9 and "-"')), ''),
        protocol: f.protocol,
        port: v.nullish(f.wholeNumber(0, largestPort)),
      }),
    ),
    endpoints: f.list(
      f.mapping({
        addresses: v.pipe(
          v.array(address, f.expected('a list of addresses')),
          v.minLength(1, 'must hold an address'),
        ),
        nodeName: v.nullish(f.text),
        conditions: v.nullish(
          f.mapping({
            ready: v.nullish(f.flag, true),
            serving: v.nullish(f.flag, true),
            terminating: v.nullish(f.flag, false),
          }),
          {},
        ),
        hints: v.nullish(f.mapping({ forZones: names, forNodes: names })),
      }),
    ),
  })
}

const documents = {
  IPv4: documentWith(f.address('ipv4')),
  IPv6: documentWith(f.address('ipv6')),
  FQDN: documentWith(f.text),
}
type EndpointFields = v.InferOutput<(typeof documents)['FQDN']>['endpoints'][number]
const AddressType = f.mapping({
  addressType: v.picklist(['IPv4', 'IPv6', 'FQDN'], f.expected('IPv4, IPv6 or FQDN')),
})

/** A discovery.k8s.io/v1 EndpointSlice with the API server's defaults (conditions: F-029), or what is wrong with it. */
export function readEndpointSlice(document: unknown): EndpointSlice | readonly FieldProblem[] {
  const type = f.readFields(AddressType, document)
  if ('problems' in type) return type.problems
  const { addressType } = type.fields
  const reading = f.readFields(documents[addressType], document)
  if ('problems' in reading) return reading.problems
  const { metadata, ports, endpoints } = reading.fields
  return {
    kind: 'EndpointSlice',
    namespace: metadata.namespace ?? 'default',
    name: metadata.name,
    labels: f.keptLabels(metadata.labels),
    serviceName: metadata.labels[serviceNameLabel],
    addressType,
    ports: ports.map(({ name, protocol, port }) => ({ name, protocol, port: port ?? undefined })),
    endpoints: endpoints.map(buildEndpoint),
  }
}

// Values before the literal, here and elsewhere on the way of every object: V8 makes one with calls in it much slower.
function buildEndpoint({ addresses, nodeName, conditions, hints }: EndpointFields): SliceEndpoint {
  const kept = f.kept(addresses)
  const node = nodeName ?? undefined
  const zoneHints = namesOf(hints?.forZones)
  const nodeHints = namesOf(hints?.forNodes)
  return { addresses: kept, nodeName: node, conditions: shared(conditions), zoneHints, nodeHints }
}

function namesOf(hints: readonly { readonly name: string }[] = []): readonly string[] {
  return f.kept(hints.map(({ name }) => name))
}

/** One object for all endpoints that are in the same state. */
function shared({ ready, serving, terminating }: EndpointConditions): EndpointConditions {
  const state = (ready ? 4 : 0) + (serving ? 2 : 0) + (terminating ? 1 : 0)
  return (states[state] ??= { ready, serving, terminating })
}

const states: EndpointConditions[] = []
