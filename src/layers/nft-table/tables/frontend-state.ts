// The elements of one frontend in all sets, as one value.
import type { Cidr } from '../../../address.js'
import type { DesiredFrontend } from '../compile/desired.js'
import { bucketOf } from '../compile/schema.js'
import type { PackedBytes, Packer } from './packed.js'

/** Membership of the sets that say yes or no about a frontend; bits of `FrontendState.flags`. */
export const frontendFlags = {
  masqueraded: 1,
  rejected: 2,
  dropped: 4,
  firewalled: 8,
  endpoints: 16,
  shortCircuit: 32,
  ownEndpoints: 64,
  ownShortCircuit: 128,
} as const

/** The elements of a frontend. Values of one kind have the same fields in the same order: there are many. */
export interface FrontendState {
  /** Data of the endpoints with index 0, 1, ..; `holeOf` where the kernel has none and has one with a higher index. */
  readonly endpoints: PackedBytes
  /** Data of the endpoints for short circuits. */
  readonly shortCircuit: PackedBytes
  /** Published number of endpoints. 0: in no set of a number. */
  readonly count: number
  readonly shortCircuitCount: number
  /** 0: in no set of a bucket. */
  readonly bucket: number
  readonly shortCircuitBucket: number
  readonly flags: number
  /** The chain of its service port that the frontend leads to. Empty: none. */
  readonly chain: string
  readonly shortCircuitChain: string
  /** Networks that may connect, each a prefix length and an address, in bytewise order. */
  readonly sources: PackedBytes
}

/** No element in any set. */
export const absent: FrontendState = {
  endpoints: '',
  shortCircuit: '',
  count: 0,
  shortCircuitCount: 0,
  bucket: 0,
  shortCircuitBucket: 0,
  flags: 0,
  chain: '',
  shortCircuitChain: '',
  sources: '',
}

export function isSameState(a: FrontendState, b: FrontendState): boolean {
  return (
    a === b ||
    (a.endpoints === b.endpoints &&
      a.shortCircuit === b.shortCircuit &&
      a.count === b.count &&
      a.shortCircuitCount === b.shortCircuitCount &&
      a.bucket === b.bucket &&
      a.shortCircuitBucket === b.shortCircuitBucket &&
      a.flags === b.flags &&
      a.chain === b.chain &&
      a.shortCircuitChain === b.shortCircuitChain &&
      a.sources === b.sources)
  )
}

/** The parts of a state that are a number of a set; 0: in no set. */
export const numberParts = [
  'count',
  'shortCircuitCount',
  'bucket',
  'shortCircuitBucket',
] as const satisfies readonly (keyof FrontendState)[]

/** The parts of a state that are a chain; empty: no element leads to one. */
export const chainParts = ['chain', 'shortCircuitChain'] as const satisfies readonly (keyof FrontendState)[]

export type ChainPart = (typeof chainParts)[number]

/** Whether the state leads packets to an own chain. */
export function hasOwnChain({ chain, shortCircuitChain }: FrontendState): boolean {
  return chain !== '' || shortCircuitChain !== ''
}

/** Whether the state has endpoints, or numbers of them, in the sets of all frontends. */
export function isFlat({ endpoints, shortCircuit, count, shortCircuitCount }: FrontendState): boolean {
  return endpoints !== '' || shortCircuit !== '' || count + shortCircuitCount > 0
}

export type NumberPart = (typeof numberParts)[number]

/** Whether the state has an element that neither of the others has. */
export function isForeign(state: FrontendState, others: readonly FrontendState[], packer: Packer): boolean {
  const { endpoints, shortCircuit, flags, sources } = state
  const { endpointBytes, addressBytes } = packer
  const known = others.flatMap((other) => splitSources(other.sources, addressBytes))
  return !(
    others.some((other) => isPartOf(endpoints, other.endpoints, endpointBytes)) &&
    others.some((other) => isPartOf(shortCircuit, other.shortCircuit, endpointBytes)) &&
    numberParts.every((part) => state[part] === 0 || others.some((other) => other[part] === state[part])) &&
    chainParts.every((part) => state[part] === '' || others.some((other) => other[part] === state[part])) &&
    (flags & ~others.reduce((all, other) => all | other.flags, 0)) === 0 &&
    splitSources(sources, addressBytes).every((source) => known.includes(source))
  )
}

/** Whether each endpoint of the list has the same index in the other one. */
function isPartOf(list: PackedBytes, other: PackedBytes, stride: number): boolean {
  if (other.startsWith(list)) return true
  const hole = holeOf(stride)
  const others = splitPacked(other, stride)
  return splitPacked(list, stride).every((endpoint, index) => endpoint === hole || endpoint === others[index])
}

/** Whether packets meet the frontend's endpoints. */
export function isPublished({ count, shortCircuitCount, flags }: FrontendState): boolean {
  return count + shortCircuitCount > 0 || (flags & leadingFlags) !== 0
}

/** The flags by which packets meet the frontend. */
const leadingFlags =
  frontendFlags.endpoints |
  frontendFlags.shortCircuit |
  frontendFlags.ownEndpoints |
  frontendFlags.ownShortCircuit

/** Stands for the endpoint of an index that the kernel lacks: no endpoint has the address and the port 0. */
export function holeOf(stride: number): PackedBytes {
  return '\0'.repeat(stride)
}

/** The list with this endpoint at the index; undefined: with none. */
export function withEndpoint(
  list: PackedBytes,
  index: number,
  endpoint: PackedBytes | undefined,
  stride: number,
): PackedBytes {
  const at = index * stride
  if (endpoint === undefined) {
    if (at >= list.length) return list
    return withoutEnd(list.slice(0, at) + holeOf(stride) + list.slice(at + stride), stride)
  }
  // As at a start, which reads index after index: the engine joins the parts later.
  if (at === list.length) return list + endpoint
  if (list.startsWith(endpoint, at)) return list
  const before = at > list.length ? list + holeOf(at - list.length) : list.slice(0, at)
  return before + endpoint + list.slice(at + stride)
}

/** The list up to its last endpoint. */
function withoutEnd(list: PackedBytes, stride: number): PackedBytes {
  const hole = holeOf(stride)
  let { length } = list
  while (length > 0 && list.startsWith(hole, length - stride)) length -= stride
  return list.slice(0, length)
}

export function packFrontend(packer: Packer, desired: DesiredFrontend): FrontendState {
  const { refusal, isMasqueraded, allowedSources, chain, shortCircuitChain } = desired
  const endpoints = chain === '' ? packer.endpoints(desired.backends) : ''
  const shortCircuit = shortCircuitChain === '' ? packer.endpoints(desired.shortCircuit) : ''
  const flags =
    (isMasqueraded ? frontendFlags.masqueraded : 0) |
    (refusal === 'reject' ? frontendFlags.rejected : 0) |
    (refusal === 'drop' ? frontendFlags.dropped : 0) |
    (allowedSources === undefined ? 0 : frontendFlags.firewalled) |
    (endpoints === '' ? 0 : frontendFlags.endpoints) |
    (shortCircuit === '' ? 0 : frontendFlags.shortCircuit) |
    (chain === '' ? 0 : frontendFlags.ownEndpoints) |
    (shortCircuitChain === '' ? 0 : frontendFlags.ownShortCircuit)
  const count = endpoints.length / packer.endpointBytes
  const shortCircuitCount = shortCircuit.length / packer.endpointBytes
  return {
    endpoints,
    shortCircuit,
    count,
    shortCircuitCount,
    bucket: bucketOf(count),
    shortCircuitBucket: bucketOf(shortCircuitCount),
    flags,
    chain,
    shortCircuitChain,
    sources: packSources(packer, allowedSources ?? []),
  }
}

function packSources(packer: Packer, sources: readonly Cidr[]): PackedBytes {
  if (sources.length === 0) return ''
  return joinSources(
    sources.map(({ address, prefixLength }) => String.fromCharCode(prefixLength) + packer.address(address)),
  )
}

/** Packed networks in their order, each once. */
export function joinSources(networks: readonly PackedBytes[]): PackedBytes {
  return [...new Set(networks)].toSorted().join('')
}

/** Each network of a packed list. */
export function splitSources(sources: PackedBytes, addressBytes: number): readonly PackedBytes[] {
  return splitPacked(sources, 1 + addressBytes)
}

/** The endpoints of a list, without holes. */
export function splitEndpoints(list: PackedBytes, stride: number): readonly PackedBytes[] {
  const hole = holeOf(stride)
  return splitPacked(list, stride).filter((endpoint) => endpoint !== hole)
}

export function splitPacked(packed: PackedBytes, stride: number): readonly PackedBytes[] {
  return Array.from({ length: packed.length / stride }, (_, index) =>
    packed.slice(index * stride, (index + 1) * stride),
  )
}

/**
 * The wanted endpoints in an order that changes the fewest elements: those that the kernel has keep their index, a hole is filled by
 * a new endpoint, or by the last one.
 */
export function arrange(acknowledged: PackedBytes, wanted: PackedBytes, stride: number): PackedBytes {
  if (acknowledged === wanted || acknowledged === '' || wanted === '') return wanted
  const missing = new Set(splitPacked(wanted, stride))
  const length = missing.size
  const placed: (PackedBytes | undefined)[] = splitPacked(acknowledged, stride).map((endpoint) =>
    missing.delete(endpoint) ? endpoint : undefined,
  )
  const added = missing.values()
  let last = placed.length - 1
  for (let index = 0; index < length; index++) {
    if (placed[index] !== undefined) continue
    const next = added.next().value
    if (next !== undefined) placed[index] = next
    else {
      while (placed[last] === undefined) last--
      placed[index] = placed[last]
      placed[last] = undefined
    }
  }
  return placed.slice(0, length).join('')
}
