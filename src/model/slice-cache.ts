// The endpoints that each EndpointSlice adds to its Service (F-025). Work is proportional to the slice that changed.
import {
  type Endpoint,
  mergeEndpoints,
  compareSlicePorts,
  equalBesidesPort,
  movedTo,
  type NumberedPort,
  type ReadSlice,
  shareEndpoints,
} from './endpoint.js'

/** The ports (`port-name/protocol`) of a Service whose endpoints changed. */
export interface ChangedPorts {
  readonly service: string
  readonly portIds: readonly string[]
  /** `endpointsPerPort` of the Service, before or after the change: the greater one. */
  readonly endpoints: number
}

const nothing: SliceContent = { ports: [], endpoints: [] }

export class SliceCache {
  /**
   * Slices sorted by name, so that the result does not depend on the order of events. Lists and not maps: nearly every Service has
   * one slice with one port.
   */
  readonly #byService = new Map<string, readonly SliceEndpoints[]>()
  /** The Service of each slice, by slice key. A slice moves when its label changes. */
  readonly #ownerOf = new Map<string, string>()
  #endpointCount = 0

  /** Stores the slice (by key) under `service`. Returns the ports that changed, including those of its former Service. */
  set(slice: string, service: string, content: SliceContent): readonly ChangedPorts[] {
    const former = this.#ownerOf.get(slice)
    const moved = former !== undefined && former !== service ? this.remove(slice) : []
    const changed = this.#replace(service, slice, content)
    if (former !== service) this.#ownerOf.set(slice, service)
    return changed.portIds.length === 0 ? moved : moved.concat(changed)
  }

  /** Removes the slice and returns the ports that changed. An unknown slice changes nothing. */
  remove(slice: string): readonly ChangedPorts[] {
    const service = this.#ownerOf.get(slice)
    if (service === undefined) return []
    this.#ownerOf.delete(slice)
    const changed = this.#replace(service, slice, nothing)
    const others = this.#byService.get(service)?.filter(({ name }) => name !== slice) ?? []
    if (others.length === 0) this.#byService.delete(service)
    else this.#byService.set(service, others)
    return changed.portIds.length === 0 ? [] : [changed]
  }

  /** Number of slices. */
  get size(): number {
    return this.#ownerOf.size
  }

  /** The Service that the slice contributes to; undefined: the slice is unknown. */
  owner(slice: string): string | undefined {
    return this.#ownerOf.get(slice)
  }

  /** The merged endpoints of one port, sorted. */
  endpoints(service: string, portId: string): readonly Endpoint[] {
    const slices = this.#byService.get(service) ?? []
    const [first] = slices
    if (first !== undefined && slices.length === 1) return first.of(portId)
    return mergeEndpoints(slices.map((slice) => slice.of(portId)))
  }

  /** Number of endpoints of one port of the Service at most. An endpoint in several slices counts once per slice. */
  endpointsPerPort(service: string): number {
    let count = 0
    for (const { endpoints } of this.#byService.get(service) ?? []) count += endpoints.length
    return count
  }

  /** Number of endpoints of all ports. An endpoint in several slices counts once per slice. */
  get endpointCount(): number {
    return this.#endpointCount
  }

  /**
   * The merged endpoints of every port in the Service's slices, including ports that the Service does not have. All ports of a Service
   * with one slice have the same endpoints: they come once, at one port.
   */
  *allEndpoints(service: string): Iterable<Endpoint> {
    const slices = this.#byService.get(service) ?? []
    const [first] = slices
    if (first !== undefined && slices.length === 1) return yield* first.endpoints
    for (const portId of new Set(slices.flatMap(({ portIds }) => portIds)))
      yield* this.endpoints(service, portId)
  }

  #replace(service: string, name: string, content: SliceContent): ChangedPorts {
    const before = this.endpointsPerPort(service)
    const slices = this.#byService.get(service) ?? []
    let slice = slices.find((known) => known.name === name)
    if (slice === undefined) {
      slice = new SliceEndpoints(name, nothing)
      this.#byService.set(service, slices.concat(slice).toSorted(compareNames))
    }
    this.#endpointCount -= slice.count
    const portIds = slice.replace(content)
    this.#endpointCount += slice.count
    return { service, portIds, endpoints: Math.max(before, this.endpointsPerPort(service)) }
  }
}

function compareNames(a: SliceEndpoints, b: SliceEndpoints): number {
  if (a.name === b.name) return 0
  return a.name < b.name ? -1 : 1
}

/** Endpoints at one port number, and those at the first port of the slice that they were made of. */
interface Moved {
  readonly source: readonly Endpoint[]
  readonly list: readonly Endpoint[]
}

/** Ports and endpoints of a slice. */
type SliceContent = Pick<ReadSlice, 'ports' | 'endpoints'>

/**
 * The endpoints of one EndpointSlice. They are kept once, at its first port, and at other port numbers when a reader asks for them: a
 * change costs as much as the slice has ports and endpoints together, not their product.
 */
class SliceEndpoints {
  /** Key of the slice. */
  readonly name: string
  #ports: SliceContent['ports']
  #endpoints: SliceContent['endpoints']
  /** By port number; undefined: none yet. Most slices have one port. */
  #moved: Map<number, Moved> | undefined

  constructor(name: string, { ports, endpoints }: SliceContent) {
    this.name = name
    this.#ports = ports
    this.#endpoints = endpoints
  }

  /** Number of endpoints of all ports. */
  get count(): number {
    return this.#ports.length * this.#endpoints.length
  }

  /** `port-name/protocol` of each port, sorted. */
  get portIds(): readonly string[] {
    return withoutRepeats(this.#ports.map(({ portId }) => portId))
  }

  /** The endpoints at the slice's first port, sorted. */
  get endpoints(): readonly Endpoint[] {
    return this.#endpoints
  }

  /** The endpoints of one port, sorted. Empty if the slice does not have the port. */
  of(portId: string): readonly Endpoint[] {
    const ports = this.#ports
    let first = 0
    for (let end = ports.length; first < end;) {
      const middle = (first + end) >>> 1
      if ((ports[middle]?.portId ?? '') < portId) first = middle + 1
      else end = middle
    }
    const lists: (readonly Endpoint[])[] = []
    for (let i = first; ports[i]?.portId === portId; i++) lists.push(this.#at(ports[i]?.port ?? 0))
    return lists.length === 1 ? (lists[0] ?? []) : mergeEndpoints(lists)
  }

  /** Takes the new content of the slice. Returns the ports whose endpoints changed. A port without endpoints equals an absent port. */
  replace(next: SliceContent): readonly string[] {
    const [formerPorts, former] = [this.#ports, this.#endpoints]
    const arePortsEqual = equalPorts(formerPorts, next.ports)
    const ports = arePortsEqual ? formerPorts : next.ports
    const endpoints = shareEndpoints(next.endpoints, former)
    const areEndpointsEqual = equalBesidesPort(former, endpoints)
    if (areEndpointsEqual && (arePortsEqual || endpoints.length === 0)) return []
    this.#ports = ports
    this.#endpoints = endpoints
    if (!arePortsEqual) this.#moved = undefined
    if (areEndpointsEqual) return differingPorts(formerPorts, ports)
    const before = former.length > 0 ? formerPorts : []
    const after = endpoints.length > 0 ? ports : []
    if (before === after || before.length === 0) return idsOf(after)
    return idsOf(after.concat(before).toSorted(compareSlicePorts))
  }

  #at(port: number): readonly Endpoint[] {
    const source = this.#endpoints
    if (source.length === 0 || source[0]?.port === port) return source
    this.#moved ??= new Map()
    const former = this.#moved.get(port)
    if (former?.source === source) return former.list
    const list = movedTo(port, source, former)
    this.#moved.set(port, { source, list })
    return list
  }
}

function equalPorts(a: readonly NumberedPort[], b: readonly NumberedPort[]): boolean {
  return a.length === b.length && a.every((port, i) => isSamePort(port, b[i]))
}

function isSamePort(a: NumberedPort, b: NumberedPort | undefined): boolean {
  return a.portId === b?.portId && a.port === b.port
}

/** The ids of the ports that only one of the lists has. Both are sorted. */
function differingPorts(a: readonly NumberedPort[], b: readonly NumberedPort[]): readonly string[] {
  const all = a.concat(b).toSorted(compareSlicePorts)
  return idsOf(all.filter((port, i) => !isSamePort(port, all[i - 1]) && !isSamePort(port, all[i + 1])))
}

/** The ports are sorted. */
function idsOf(ports: readonly NumberedPort[]): readonly string[] {
  return withoutRepeats(ports.map(({ portId }) => portId))
}

function withoutRepeats(sorted: readonly string[]): readonly string[] {
  return sorted.filter((id, i) => id !== sorted[i - 1])
}
