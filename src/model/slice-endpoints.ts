import {
  compareSlicePorts,
  type Endpoint,
  equalBesidesPort,
  mergeEndpoints,
  movedTo,
  type NumberedPort,
  type ReadSlice,
  shareEndpoints,
} from './endpoint.js'

/** Endpoints at one port number, and those at the first port of the slice that they were made of. */
interface Moved {
  readonly source: readonly Endpoint[]
  readonly list: readonly Endpoint[]
}

/** Ports and endpoints of a slice. */
export type SliceContent = Pick<ReadSlice, 'ports' | 'endpoints'>

/**
 * The endpoints of one EndpointSlice. They are kept once, at its first port, and at other port numbers when a reader asks for them: a
 * change costs as much as the slice has ports and endpoints together, not their product.
 */
export class SliceEndpoints {
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
