// The endpoints that each EndpointSlice adds to its Service (F-025). Work is proportional to the slice that changed.
import { type Endpoint, mergeEndpoints } from './endpoint.js'
import { type SliceContent, SliceEndpoints } from './slice-endpoints.js'

/** The ports (`port-name/protocol`) of a Service whose endpoints changed. */
export interface ChangedPorts {
  readonly service: string
  readonly portIds: readonly string[]
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
    const portIds = this.#replace(service, slice, content)
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
    const portIds = this.#replace(service, slice, nothing)
    const others = this.#byService.get(service)?.filter(({ name }) => name !== slice) ?? []
    if (others.length === 0) this.#byService.delete(service)
    else this.#byService.set(service, others)
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
    if (first !== undefined && slices.length === 1) return first.of(portId)
    return mergeEndpoints(slices.map((slice) => slice.of(portId)))
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

  /** Returns the ports that changed. */
  #replace(service: string, name: string, content: SliceContent): readonly string[] {
    const slices = this.#byService.get(service) ?? []
    let slice = slices.find((known) => known.name === name)
    if (slice === undefined) {
      slice = new SliceEndpoints(name, nothing)
      this.#byService.set(service, slices.concat(slice).toSorted(compareNames))
    }
    this.#endpointCount -= slice.count
    const changed = slice.replace(content)
    this.#endpointCount += slice.count
    return changed
  }
}

function compareNames(a: SliceEndpoints, b: SliceEndpoints): number {
  if (a.name === b.name) return 0
  return a.name < b.name ? -1 : 1
}
