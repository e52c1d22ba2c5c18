// One address and port behind a Service port (F-026 to F-030).
import { type IpAddress, type IpFamily, familyOf, formatEndpoint, parseIpAddress } from '../address.js'
import type { EndpointSlice, SliceEndpoint } from '../source/index.js'
import { portIdOf } from './service-port.js'

/** NB: deepEqual compares only address and port. The other fields are read from the slice through a private reference. */
export class Endpoint {
  readonly address: IpAddress
  readonly port: number
  /** The slice's own object. Copies of its fields would cost some 40 bytes more per endpoint. */
  readonly #written: SliceEndpoint

  constructor(address: IpAddress, port: number, written: SliceEndpoint) {
    this.address = address
    this.port = port
    this.#written = written
  }

  /** The same endpoint at another port. */
  at(port: number): Endpoint {
    return new Endpoint(this.address, port, this.#written)
  }

  /** undefined: the slice names no node. */
  get nodeName(): string | undefined {
    return this.#written.nodeName
  }

  get isReady(): boolean {
    return this.#written.conditions.ready
  }

  get isServing(): boolean {
    return this.#written.conditions.serving
  }

  get isTerminating(): boolean {
    return this.#written.conditions.terminating
  }

  get zoneHints(): readonly string[] {
    return this.#written.zoneHints
  }

  get nodeHints(): readonly string[] {
    return this.#written.nodeHints
  }
}

/** A port of an EndpointSlice that Services can use. */
export interface NumberedPort {
  /** `port-name/protocol`. */
  readonly portId: string
  /** The number at the endpoints. */
  readonly port: number
}

/** The endpoints of one slice. All its ports have the same ones. */
export interface ReadSlice {
  /** Sorted by `compareSlicePorts`, without duplicates. The API server refuses two numbers for one name; manifests may have them. */
  readonly ports: readonly NumberedPort[]
  /** At the first port, sorted and without duplicates (`mergeEndpoints`). Empty if there is no port. */
  readonly endpoints: readonly Endpoint[]
  readonly problems: readonly string[]
}

/** Reads the slice's ports and endpoints. `problems` names the unusable ones. */
export function readSlice(slice: EndpointSlice, family: IpFamily): ReadSlice {
  const problems: string[] = []
  const addresses = slice.endpoints.map(({ address: written }) => {
    const address = parseIpAddress(written)
    if (address !== undefined && familyOf(address) === family) return address
    if (address === undefined) problems.push(`endpoint address "${written}" is not an IP address`)
    else problems.push(`endpoint address ${address} is not ${slice.addressType}`)
    return undefined
  })
  const ports = readPorts(slice, problems)
  const [first] = ports
  if (first === undefined) return { ports, endpoints: [], problems }
  const endpoints: Endpoint[] = []
  slice.endpoints.forEach((endpoint, i) => {
    const address = addresses[i]
    if (address !== undefined) endpoints.push(new Endpoint(address, first.port, endpoint))
  })
  return { ports, endpoints: mergeEndpoints([endpoints]), problems }
}

function readPorts(slice: EndpointSlice, problems: string[]): readonly NumberedPort[] {
  const ports: NumberedPort[] = []
  for (const { name, protocol, port } of slice.ports) {
    if (name === undefined) problems.push('a port without a name is ignored')
    else if (port !== undefined && port !== 0) ports.push({ portId: portIdOf(name, protocol), port })
  }
  const sorted = ports.toSorted(compareSlicePorts)
  const isRepeated = (port: NumberedPort, i: number): boolean => {
    const before = sorted[i - 1]
    return before !== undefined && compareSlicePorts(before, port) === 0
  }
  return sorted.some(isRepeated) ? sorted.filter((port, i) => !isRepeated(port, i)) : sorted
}

/** By `portId`, then by number. */
export function compareSlicePorts(a: NumberedPort, b: NumberedPort): number {
  if (a.portId === b.portId) return a.port - b.port
  return a.portId < b.portId ? -1 : 1
}

/** `address:port`, IPv6 in brackets: identity and sort key. */
function endpointId({ address, port }: Pick<Endpoint, 'address' | 'port'>): string {
  return formatEndpoint(address, port)
}

/** Bytewise order of `endpointId` (F-031) among endpoints of one family. Usually the addresses decide, and no text is built. */
function compareEndpoints(a: Endpoint, b: Endpoint): number {
  if (!isLike(a.address, b.address)) return a.address < b.address ? -1 : 1
  if (a.address === b.address && a.port === b.port) return 0
  const firstId = endpointId(a)
  const secondId = endpointId(b)
  return firstId < secondId ? -1 : 1
}

/** Whether one address is a prefix of the other. The port of the shorter one then takes part in the order. */
function isLike(a: IpAddress, b: IpAddress): boolean {
  if (a.length === b.length) return a === b
  return a.length < b.length ? b.startsWith(a) : a.startsWith(b)
}

/**
 * Merges lists into one in the order of `compareEndpoints`, without duplicates. A pod address may be reused while its former owner
 * still terminates in another slice. If two endpoints have the same address and port, the one that does not terminate wins (F-030).
 */
export function mergeEndpoints(lists: readonly (readonly Endpoint[])[]): readonly Endpoint[] {
  const [first = []] = lists
  const all = lists.length === 1 ? first : lists.flat()
  if (isInOrder(all)) return all
  const sorted = all.toSorted(compareEndpoints)
  return isInOrder(sorted) ? sorted : withoutDuplicates(sorted)
}

/** Whether the list is sorted and has no duplicates. */
function isInOrder(endpoints: readonly Endpoint[]): boolean {
  let last: Endpoint | undefined
  for (const endpoint of endpoints) {
    if (last !== undefined && compareEndpoints(last, endpoint) >= 0) return false
    last = endpoint
  }
  return true
}

function withoutDuplicates(sorted: readonly Endpoint[]): readonly Endpoint[] {
  const merged: Endpoint[] = []
  for (const endpoint of sorted) {
    const last = merged.at(-1)
    if (last === undefined || compareEndpoints(last, endpoint) !== 0) merged.push(endpoint)
    else if (!endpoint.isTerminating) merged[merged.length - 1] = endpoint
  }
  return merged
}

/**
 * Returns `next` with the objects of `former` where they are equal. Both lists are sorted and without duplicates. When one endpoint of
 * many changes, the others keep their objects, and there is little garbage.
 */
export function shareEndpoints(next: readonly Endpoint[], former: readonly Endpoint[]): readonly Endpoint[] {
  let at = 0
  return next.map((endpoint) => {
    let same = former[at]
    while (same !== undefined && compareEndpoints(same, endpoint) < 0) same = former[++at]
    return same !== undefined && equalEndpoint(same, endpoint) ? same : endpoint
  })
}

/** Whether the endpoints are the same at any port. Both lists are sorted and without duplicates, each at one port. */
export function equalBesidesPort(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return a.length === b.length && a.every((endpoint, i) => isSameBesidesPort(endpoint, b[i]))
}

/**
 * The endpoints of `list` at another port. Those that are objects of `former.source` too have the objects of `former.list`, its
 * endpoints at that port in the same order. The order of endpoints at one port does not depend on the port.
 */
export function movedTo(
  port: number,
  list: readonly Endpoint[],
  former: { readonly source: readonly Endpoint[]; readonly list: readonly Endpoint[] } | undefined,
): readonly Endpoint[] {
  if (former === undefined) return list.map((endpoint) => endpoint.at(port))
  let at = 0
  return list.map((endpoint) => {
    let source = former.source[at]
    while (source !== undefined && source !== endpoint && compareEndpoints(source, endpoint) < 0)
      source = former.source[++at]
    return (source === endpoint ? former.list[at] : undefined) ?? endpoint.at(port)
  })
}

function equalEndpoint(a: Endpoint, b: Endpoint): boolean {
  return a.port === b.port && isSameBesidesPort(a, b)
}

function isSameBesidesPort(a: Endpoint, b: Endpoint | undefined): boolean {
  if (a === b) return true
  return (
    b !== undefined &&
    a.address === b.address &&
    a.nodeName === b.nodeName &&
    a.isReady === b.isReady &&
    a.isServing === b.isServing &&
    a.isTerminating === b.isTerminating &&
    equalTexts(a.zoneHints, b.zoneHints) &&
    equalTexts(a.nodeHints, b.nodeHints)
  )
}

function equalTexts(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((text, i) => text === b[i]))
}
