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

/** The endpoints of one port (`port-name/protocol`), sorted and without duplicates (`mergeEndpoints`). */
export interface PortEndpoints {
  readonly portId: string
  readonly endpoints: readonly Endpoint[]
}

/** The endpoints of one slice. Each port appears once. */
export interface SliceEndpoints {
  readonly ports: readonly PortEndpoints[]
  readonly problems: readonly string[]
}

/** Reads the slice's endpoints. `problems` names the unusable ones. */
export function readSlice(slice: EndpointSlice, family: IpFamily): SliceEndpoints {
  const problems: string[] = []
  const addresses = slice.endpoints.map(({ address: written }) => {
    const address = parseIpAddress(written)
    if (address !== undefined && familyOf(address) === family) return address
    if (address === undefined) problems.push(`endpoint address "${written}" is not an IP address`)
    else problems.push(`endpoint address ${address} is not ${slice.addressType}`)
    return undefined
  })
  const ports: PortEndpoints[] = []
  for (const { name, protocol, port } of slice.ports) {
    if (name === undefined) problems.push('a port without a name is ignored')
    if (name === undefined || port === undefined || port === 0) continue
    const portId = portIdOf(name, protocol)
    const endpoints: Endpoint[] = []
    slice.endpoints.forEach((endpoint, i) => {
      const address = addresses[i]
      if (address !== undefined) endpoints.push(new Endpoint(address, port, endpoint))
    })
    const same = ports.findIndex((known) => known.portId === portId)
    if (same === -1) ports.push({ portId, endpoints: mergeEndpoints([endpoints]) })
    else ports[same] = { portId, endpoints: mergeEndpoints([ports[same]?.endpoints ?? [], endpoints]) }
  }
  return { ports, problems }
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

export function equalEndpoints(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return a.length === b.length && a.every((endpoint, i) => equalEndpoint(endpoint, b[i]))
}

function equalEndpoint(a: Endpoint, b: Endpoint | undefined): boolean {
  if (a === b) return true
  return (
    b !== undefined &&
    a.address === b.address &&
    a.port === b.port &&
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
