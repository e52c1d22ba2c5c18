// The elements of the sets that a route has.
import type { IpFamily } from '../../../address.js'
import { type NfFieldValue, type NfSet, protocolNumber } from '../../../kernel/index.js'
import type { Backend, Frontend } from '../../../routing/index.js'
import type { DesiredFrontend, DesiredRoute } from './desired.js'
import { bucketOf, type EndpointSets, type NftSchema, schemaOf } from './schema.js'

/** An element of a set, or of a map when it has data. */
export interface DesiredElement {
  readonly set: NfSet
  readonly key: readonly NfFieldValue[]
  readonly data?: readonly NfFieldValue[]
  /** The chain that an element of a verdict map leads to. */
  readonly chain?: string
}

/** KEY of the frontend in the sets of its kind. */
export function frontendKey(frontend: Frontend): readonly NfFieldValue[] {
  const { protocol, port } = frontend
  const portKey = [protocolNumber[protocol], port]
  return frontend.kind === 'address' ? [frontend.address, ...portKey] : portKey
}

/**
 * All elements of a route, frontend by frontend. The endpoints of a list have the indices of their places; in the kernel they may
 * have others, because an endpoint that comes or goes moves one other endpoint at most.
 */
export function* elementsOf(route: DesiredRoute, family: IpFamily): Generator<DesiredElement> {
  const schema = schemaOf(family)
  for (const frontend of route.frontends) yield* frontendElements(frontend, schema)
  for (const { address, protocol, port } of route.hairpins)
    yield { set: schema.hairpinConnections, key: [address, address, protocolNumber[protocol], port] }
}

function* frontendElements(desired: DesiredFrontend, schema: NftSchema): Generator<DesiredElement> {
  const { frontend, refusal } = desired
  const sets = frontend.kind === 'address' ? schema.services : schema.nodePorts
  const key = frontendKey(frontend)
  if (desired.isClusterIP && frontend.kind === 'address')
    yield { set: schema.clusterIPs, key: [frontend.address] }
  if (refusal !== undefined) yield { set: refusal === 'drop' ? sets.dropped : sets.rejected, key }
  if (desired.isMasqueraded) yield { set: sets.masqueraded, key }
  yield* sourceElements(desired, schema)
  yield* endpointElements(sets.endpoints, key, { backends: desired.backends, chain: desired.chain })
  yield* endpointElements(sets.shortCircuit, key, {
    backends: desired.shortCircuit,
    chain: desired.shortCircuitChain,
  })
}

function* sourceElements(
  { frontend, allowedSources }: DesiredFrontend,
  { firewalledServices, allowedSources: setOf }: NftSchema,
): Generator<DesiredElement> {
  if (allowedSources === undefined) return
  const key = frontendKey(frontend)
  yield { set: firewalledServices, key }
  for (const { address, prefixLength } of allowedSources)
    yield { set: setOf(prefixLength), key: [...key, address] }
}

function* endpointElements(
  sets: EndpointSets,
  key: readonly NfFieldValue[],
  { backends, chain }: { readonly backends: readonly Backend[]; readonly chain: string },
): Generator<DesiredElement> {
  if (chain !== '') {
    yield { set: sets.withOwnChain, key }
    yield { set: sets.ownChains, key, chain }
    return
  }
  const count = backends.length
  if (count === 0) return
  const bucket = bucketOf(count)
  yield { set: sets.all, key }
  if (bucket > 0) yield { set: sets.inBucket(bucket), key }
  yield { set: sets.withCount(count), key }
  for (const [index, { address, port }] of backends.entries())
    yield { set: sets.endpointAt(index), key, data: [address, port] }
}
