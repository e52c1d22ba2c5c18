// What every EndpointSlice contributes to its Service (F-025). Work is proportional to the slice that changed.
import { type Endpoint, type SliceEndpoints, equalEndpoints, mergeEndpoints } from './endpoint.js'

/** A Service whose ports (`port-name/protocol`) got other endpoints. */
export interface ChangedPorts {
  readonly service: string
  readonly portIds: readonly string[]
}

const noEndpoints: SliceEndpoints['byPort'] = new Map()

export class SliceCache {
  readonly #byService = new Map<string, Map<string, SliceEndpoints['byPort']>>()
  /** Slice key → the Service that it named last; its label may change. */
  readonly #ownerOf = new Map<string, string>()

  /** Puts `slice` (its key) under `service`, and says which ports changed, of its former Service too. */
  set(slice: string, service: string, byPort: SliceEndpoints['byPort']): readonly ChangedPorts[] {
    const former = this.#ownerOf.get(slice)
    const moved = former !== undefined && former !== service ? this.remove(slice) : []
    const slices = this.#byService.get(service) ?? new Map<string, SliceEndpoints['byPort']>()
    const portIds = differingPorts(slices.get(slice) ?? noEndpoints, byPort)
    slices.set(slice, byPort)
    this.#byService.set(service, slices)
    this.#ownerOf.set(slice, service)
    return portIds.length === 0 ? moved : [...moved, { service, portIds }]
  }

  /** Forgets the slice; nothing changes when it is unknown. */
  remove(slice: string): readonly ChangedPorts[] {
    const service = this.#ownerOf.get(slice)
    if (service === undefined) return []
    this.#ownerOf.delete(slice)
    const slices = this.#byService.get(service)
    const portIds = differingPorts(slices?.get(slice) ?? noEndpoints, noEndpoints)
    slices?.delete(slice)
    if (slices?.size === 0) this.#byService.delete(service)
    return portIds.length === 0 ? [] : [{ service, portIds }]
  }

  /** The merged endpoints of one port; slices in the order of their names, so that every history gives one result. */
  endpoints(service: string, portId: string): readonly Endpoint[] {
    const slices = this.#byService.get(service)
    if (slices === undefined) return []
    const names = slices.size === 1 ? [...slices.keys()] : [...slices.keys()].toSorted(compareTexts)
    return mergeEndpoints(names.map((name) => slices.get(name)?.get(portId) ?? []))
  }

  /** The merged endpoints of every port that slices of the Service have, whether the Service has it or not. */
  *allEndpoints(service: string): Iterable<Endpoint> {
    const slices = this.#byService.get(service)?.values() ?? []
    for (const portId of new Set([...slices].flatMap((byPort) => [...byPort.keys()]))) {
      yield* this.endpoints(service, portId)
    }
  }
}

function compareTexts(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** Ports whose endpoints differ; a port without endpoints is the same as no port. */
function differingPorts(a: SliceEndpoints['byPort'], b: SliceEndpoints['byPort']): readonly string[] {
  const portIds = new Set([...a.keys(), ...b.keys()])
  return [...portIds].filter((portId) => !equalEndpoints(a.get(portId) ?? [], b.get(portId) ?? []))
}
