// The endpoints that each EndpointSlice adds to its Service (F-025). Work is proportional to the slice that changed.
import {
  type Endpoint,
  type PortEndpoints,
  equalEndpoints,
  mergeEndpoints,
  shareEndpoints,
} from './endpoint.js'

/** The ports (`port-name/protocol`) of a Service whose endpoints changed. */
export interface ChangedPorts {
  readonly service: string
  readonly portIds: readonly string[]
}

interface Slice {
  /** Key of the slice. */
  readonly name: string
  readonly ports: readonly PortEndpoints[]
}

const nothing: readonly PortEndpoints[] = []

export class SliceCache {
  /**
   * Slices sorted by name, so that the result does not depend on the order of events. Lists and not maps: nearly every Service has
   * one slice with one port.
   */
  readonly #byService = new Map<string, readonly Slice[]>()
  /** The Service of each slice, by slice key. A slice moves when its label changes. */
  readonly #ownerOf = new Map<string, string>()
  #endpointCount = 0

  /** Stores the slice (by key) under `service`. Returns the ports that changed, including those of its former Service. */
  set(slice: string, service: string, ports: readonly PortEndpoints[]): readonly ChangedPorts[] {
    const former = this.#ownerOf.get(slice)
    const moved = former !== undefined && former !== service ? this.remove(slice) : []
    const portIds = this.#replace(service, slice, ports)
    if (former !== service) this.#ownerOf.set(slice, service)
    return portIds.length === 0 ? moved : moved.concat({ service, portIds })
  }

  /** Removes the slice and returns the ports that changed. An unknown slice changes nothing. */
  remove(slice: string): readonly ChangedPorts[] {
    // A family without slices, as in a cluster with one family. A look-up would build the text of the key.
    if (this.#ownerOf.size === 0) return []
    const service = this.#ownerOf.get(slice)
    if (service === undefined) return []
    this.#ownerOf.delete(slice)
    const portIds = this.#replace(service, slice, undefined)
    return portIds.length === 0 ? [] : [{ service, portIds }]
  }

  /** The Service that the slice contributes to; undefined: the slice is unknown. */
  owner(slice: string): string | undefined {
    if (this.#ownerOf.size === 0) return undefined
    return this.#ownerOf.get(slice)
  }

  /** The merged endpoints of one port, sorted. */
  endpoints(service: string, portId: string): readonly Endpoint[] {
    const slices = this.#byService.get(service) ?? []
    const [first] = slices
    if (first !== undefined && slices.length === 1) return endpointsOf(first.ports, portId)
    return mergeEndpoints(slices.map(({ ports }) => endpointsOf(ports, portId)))
  }

  /** Number of endpoints of all ports. An endpoint in several slices counts once per slice. */
  get endpointCount(): number {
    return this.#endpointCount
  }

  /** The merged endpoints of every port in the Service's slices, including ports that the Service does not have. */
  *allEndpoints(service: string): Iterable<Endpoint> {
    const slices = this.#byService.get(service) ?? []
    for (const portId of new Set(slices.flatMap(({ ports }) => ports.map((port) => port.portId)))) {
      yield* this.endpoints(service, portId)
    }
  }

  /** Returns the ports that changed. */
  #replace(service: string, name: string, ports: readonly PortEndpoints[] | undefined): readonly string[] {
    const slices = this.#byService.get(service)
    if (slices === undefined) return this.#open(service, name, ports ?? nothing)
    const former = slices.find((slice) => slice.name === name)
    const before = former?.ports ?? nothing
    const after = (ports ?? nothing).map((port) => sharing(port, before))
    const changed = differingPorts(before, after)
    if (changed.length === 0 && former !== undefined && ports !== undefined) return changed
    this.#endpointCount += countOf(after) - countOf(before)
    const others = slices.filter((slice) => slice !== former)
    const all = ports === undefined ? others : others.concat({ name: former?.name ?? name, ports: after })
    if (all.length === 0) this.#byService.delete(service)
    else this.#byService.set(service, all.length === 1 ? all : all.toSorted(compareNames))
    return changed
  }

  /** Adds the first slice of a Service. Returns the ports that changed. */
  #open(service: string, name: string, ports: readonly PortEndpoints[]): readonly string[] {
    this.#byService.set(service, [{ name, ports }])
    this.#endpointCount += countOf(ports)
    return ports.filter(({ endpoints }) => endpoints.length > 0).map(({ portId }) => portId)
  }
}

function compareNames(a: Slice, b: Slice): number {
  if (a.name === b.name) return 0
  return a.name < b.name ? -1 : 1
}

function countOf(ports: readonly PortEndpoints[]): number {
  return ports.reduce((sum, { endpoints }) => sum + endpoints.length, 0)
}

function endpointsOf(ports: readonly PortEndpoints[], portId: string): readonly Endpoint[] {
  return ports.find((port) => port.portId === portId)?.endpoints ?? []
}

/** The port, with its former endpoint objects where they are equal. */
function sharing(port: PortEndpoints, before: readonly PortEndpoints[]): PortEndpoints {
  const former = before.find(({ portId }) => portId === port.portId)
  if (former === undefined) return port
  const endpoints = shareEndpoints(port.endpoints, former.endpoints)
  return { portId: former.portId, endpoints }
}

/** Ports whose endpoints differ. A port without endpoints equals an absent port. */
function differingPorts(
  before: readonly PortEndpoints[],
  after: readonly PortEndpoints[],
): readonly string[] {
  const portIds: string[] = []
  for (const { portId, endpoints } of after)
    if (!equalEndpoints(endpointsOf(before, portId), endpoints)) portIds.push(portId)
  for (const { portId, endpoints } of before)
    if (endpoints.length > 0 && !after.some((port) => port.portId === portId)) portIds.push(portId)
  return portIds
}
