// The addresses and ports that the node itself needs: those of the API server, and those that the agent serves.
import { formatEndpoint, type IpAddress, parseIpAddress } from '../address.js'
import type { ServersConfig } from '../config/index.js'
import type { EndpointSlice, ObjectEvent, ObjectKey } from '../source/index.js'

/** A TCP port of one address. */
interface Place {
  readonly address: IpAddress
  readonly port: number
}

/** A TCP port on which a server of the agent listens. */
export interface ServedPlace {
  readonly server: 'healthz' | 'metrics'
  /**
   * `all`: every address of this machine. `every frontend`: the same in a mode that makes frontends addresses of this machine and listens
   * there itself, so that a server at all addresses has its port at each frontend.
   */
  readonly address: IpAddress | 'all' | 'every frontend'
  readonly port: number
}

/** Which Services may have a frontend there: `holderOf` (routing/left-out-frontends.ts). */
export interface ProtectedPlaces {
  /** The other ends of the agent's own connections to the API server since the start, and the endpoints of default/kubernetes. */
  readonly apiServer: readonly Place[]
  readonly agent: readonly ServedPlace[]
}

/** The Service of the API server, which the API server itself keeps. */
export const apiServerService = 'default/kubernetes'

/** The places of the agent's servers. The status page is a page of the metrics server. */
export function servedPlaces({
  healthzBindAddress,
  metricsBindAddress,
}: Pick<ServersConfig, 'healthzBindAddress' | 'metricsBindAddress'>): readonly ServedPlace[] {
  const served = { healthz: healthzBindAddress, metrics: metricsBindAddress }
  return (['healthz', 'metrics'] as const).flatMap((server) => {
    const bound = served[server]
    if (bound === undefined) return []
    const { host, port } = bound
    // BoundServer: the unspecified address of one family means all addresses of both.
    return [{ server, address: host === '0.0.0.0' || host === '::' ? 'all' : host, port }]
  })
}

/** Greatest number of connections' ends to keep. A name of a server has a few addresses. */
const mostPeers = 16

/** Follows the places of the API server. Pure. */
export class ApiServerPlaces {
  /** By `address:port`, the last one last. */
  readonly #peers = new Map<string, Place>()
  readonly #slices = new Map<string, readonly Place[]>()
  #places: readonly Place[] = []

  /** In bytewise order, each once. The same list until a place changes. */
  get places(): readonly Place[] {
    return this.#places
  }

  /** Returns whether `places` changed. */
  apply(event: ObjectEvent): boolean {
    if (event.type === 'connected') this.#connect(event.address, event.port)
    else if (event.type === 'set' && event.object.kind === 'EndpointSlice') this.#setSlice(event.object)
    else if (event.type === 'delete' && event.kind === 'EndpointSlice')
      return this.#slices.delete(nameOf(event.key)) && this.#renew()
    else return false
    return this.#renew()
  }

  #connect(text: string, port: number): void {
    const address = parseIpAddress(text)
    if (address === undefined) return
    const id = formatEndpoint(address, port)
    this.#peers.delete(id)
    this.#peers.set(id, { address, port })
    const [oldest] = this.#peers.keys()
    if (this.#peers.size > mostPeers && oldest !== undefined) this.#peers.delete(oldest)
  }

  #setSlice(slice: EndpointSlice): void {
    const name = nameOf(slice)
    if (`${slice.namespace}/${slice.serviceName}` === apiServerService)
      this.#slices.set(name, placesOf(slice))
    else if (this.#slices.size > 0) this.#slices.delete(name)
  }

  #renew(): boolean {
    const all = [...this.#peers.values(), ...[...this.#slices.values()].flat()]
    const byId = new Map(all.map((place) => [formatEndpoint(place.address, place.port), place]))
    const ids = [...byId.keys()].toSorted()
    if (ids.join() === this.#places.map(({ address, port }) => formatEndpoint(address, port)).join())
      return false
    this.#places = ids.map((id) => byId.get(id)).filter((place) => place !== undefined)
    return true
  }
}

/** Not only the ready ones: a server that starts again needs its address too. */
function placesOf({ endpoints, ports }: EndpointSlice): readonly Place[] {
  const addresses = endpoints.map(({ address }) => parseIpAddress(address))
  return addresses
    .filter((address) => address !== undefined)
    .flatMap((address) =>
      ports.flatMap(({ protocol, port = 0 }) => (protocol === 'TCP' && port > 0 ? [{ address, port }] : [])),
    )
}

function nameOf({ namespace, name }: ObjectKey): string {
  return `${namespace}/${name}`
}
