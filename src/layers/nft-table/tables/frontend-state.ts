// The elements of one frontend in all sets, as one value.
import type { Cidr } from '../../../address.js'
import type { DesiredFrontend } from '../compile/desired.js'
import type { PackedBytes, Packer } from './packed.js'

/** Membership of the sets that say yes or no about a frontend; bits of `FrontendState.flags`. */
export const frontendFlags = { masqueraded: 1, rejected: 2, dropped: 4, firewalled: 8 } as const

/** The elements of a frontend. Values of one kind have the same fields in the same order: there are many. */
export interface FrontendState {
  /** Data of the endpoints with index 0, 1, .. */
  readonly endpoints: PackedBytes
  /** Data of the endpoints for short circuits. */
  readonly shortCircuit: PackedBytes
  /** Published number of endpoints. 0: no element. */
  readonly count: number
  readonly shortCircuitCount: number
  readonly flags: number
  /** 0: in no set of session affinity. */
  readonly affinitySeconds: number
  /** Networks that may connect, each a prefix length and an address, in bytewise order. */
  readonly sources: PackedBytes
}

/** No element in any set. */
export const absent: FrontendState = {
  endpoints: '',
  shortCircuit: '',
  count: 0,
  shortCircuitCount: 0,
  flags: 0,
  affinitySeconds: 0,
  sources: '',
}

export function isSameState(a: FrontendState, b: FrontendState): boolean {
  return (
    a === b ||
    (a.endpoints === b.endpoints &&
      a.shortCircuit === b.shortCircuit &&
      a.count === b.count &&
      a.shortCircuitCount === b.shortCircuitCount &&
      a.flags === b.flags &&
      a.affinitySeconds === b.affinitySeconds &&
      a.sources === b.sources)
  )
}

/** Whether the state has an element that neither of the others has. A list of which the end is missing has none. */
export function isForeign(state: FrontendState, others: readonly FrontendState[], packer: Packer): boolean {
  const { endpoints, shortCircuit, count, shortCircuitCount, flags, affinitySeconds, sources } = state
  const isIn = (value: number, of: (other: FrontendState) => number): boolean =>
    value === 0 || others.some((other) => of(other) === value)
  const known = others.flatMap((other) => splitSources(other.sources, packer.addressBytes))
  return !(
    others.some((other) => other.endpoints.startsWith(endpoints)) &&
    others.some((other) => other.shortCircuit.startsWith(shortCircuit)) &&
    isIn(count, (other) => other.count) &&
    isIn(shortCircuitCount, (other) => other.shortCircuitCount) &&
    (flags & ~others.reduce((all, other) => all | other.flags, 0)) === 0 &&
    isIn(affinitySeconds, (other) => other.affinitySeconds) &&
    splitSources(sources, packer.addressBytes).every((source) => known.includes(source))
  )
}

/** Whether packets meet the frontend's endpoints. */
export function isPublished({ count, shortCircuitCount }: FrontendState): boolean {
  return count + shortCircuitCount > 0
}

export function packFrontend(packer: Packer, desired: DesiredFrontend): FrontendState {
  const { refusal, isMasqueraded, allowedSources, affinitySeconds } = desired
  const endpoints = packer.endpoints(desired.backends)
  const shortCircuit = packer.endpoints(desired.shortCircuit)
  const flags =
    (isMasqueraded ? frontendFlags.masqueraded : 0) |
    (refusal === 'reject' ? frontendFlags.rejected : 0) |
    (refusal === 'drop' ? frontendFlags.dropped : 0) |
    (allowedSources === undefined ? 0 : frontendFlags.firewalled)
  return {
    endpoints,
    shortCircuit,
    count: endpoints.length / packer.endpointBytes,
    shortCircuitCount: shortCircuit.length / packer.endpointBytes,
    flags,
    affinitySeconds,
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
