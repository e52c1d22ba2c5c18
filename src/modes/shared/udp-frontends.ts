// Which frontends of UDP services there are, and whose flows a change of a route leaves behind. Pure.
import { formatEndpoint, type IpAddress } from '../../address.js'
import type { ConntrackFrontend } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Route } from '../../routing/index.js'

/** What the clean-up of flows needs to know of a route. */
export type UdpRoute = Pick<
  Route,
  'key' | 'protocol' | 'clusterIP' | 'port' | 'nodePort' | 'externalIPs' | 'loadBalancerIPs' | 'flowBackends'
>

/** Where clients send to; without an address: a node port. */
export type FrontendPlace = Pick<ConntrackFrontend, 'address' | 'port'>

type Backends = UdpRoute['flowBackends']

interface Frontend {
  readonly place: FrontendPlace
  /** Those that have it, in bytewise order of their keys: the first one serves it. */
  readonly claimants: readonly UdpRoute[]
}

/** `1.2.3.4:53`; `*:30053` is a node port. */
export function formatPlace({ address, port }: FrontendPlace): string {
  return address === undefined ? `*:${port}` : formatEndpoint(address, port)
}

/** By their texts. */
function placesOf(route: UdpRoute | undefined): ReadonlyMap<string, FrontendPlace> {
  if (route === undefined || route.protocol !== 'UDP') return new Map()
  const { clusterIP, externalIPs, loadBalancerIPs, nodePort, port } = route
  const addresses: readonly IpAddress[] = [clusterIP, ...externalIPs, ...loadBalancerIPs]
  const places: FrontendPlace[] = addresses.map((address) => ({ address, port }))
  if (nodePort !== 0) places.push({ address: undefined, port: nodePort })
  return new Map(places.map((place) => [formatPlace(place), place]))
}

/**
 * Whether a flow of the frontend may lead where it must not. Undefined: nobody has the frontend. A frontend that is new, or
 * whose first endpoint has come, may have flows that are not translated at all, and so never meet an endpoint.
 */
function leavesFlows(before: Backends | undefined, after: Backends | undefined): boolean {
  if (before === after) return false
  if (before === undefined || after === undefined) return true
  if (before.length === 0) return after.length > 0
  const kept = new Set(after.map(({ address, port }) => formatEndpoint(address, port)))
  return before.some(({ address, port }) => !kept.has(formatEndpoint(address, port)))
}

/** The frontends of one family. */
export class UdpFrontends {
  readonly #routes = new Map<ServicePortKey, UdpRoute>()
  readonly #frontends = new Map<string, Frontend>()

  /** Puts a route in the place of the one before; undefined: there is none any more. Returns whose flows need a look. */
  set(key: ServicePortKey, next: UdpRoute | undefined): readonly FrontendPlace[] {
    const former = placesOf(this.#routes.get(key))
    const wanted = placesOf(next)
    const touched = [...new Map([...former, ...wanted])].map(([text, place]) => ({
      text,
      place,
      before: this.#backendsOf(text),
    }))
    for (const text of former.keys()) this.#drop(text, key)
    for (const [text, place] of wanted) if (next !== undefined) this.#claim(text, place, next)
    if (next === undefined || wanted.size === 0) this.#routes.delete(key)
    else this.#routes.set(key, next)
    return touched
      .filter(({ text, before }) => leavesFlows(before, this.#backendsOf(text)))
      .map(({ place }) => place)
  }

  /** Every place that somebody has. */
  get places(): readonly FrontendPlace[] {
    return [...this.#frontends.values()].map(({ place }) => place)
  }

  /** The place with those to whom its flows may lead: nobody, once nobody has it. */
  frontendAt(place: FrontendPlace): ConntrackFrontend {
    return { ...place, protocol: 'udp', backends: this.#backendsOf(formatPlace(place)) ?? [] }
  }

  #backendsOf(text: string): Backends | undefined {
    return this.#frontends.get(text)?.claimants[0]?.flowBackends
  }

  #claim(text: string, place: FrontendPlace, route: UdpRoute): void {
    const others = this.#frontends.get(text)?.claimants ?? []
    const claimants = [...others, route].toSorted((a, b) => (a.key < b.key ? -1 : 1))
    this.#frontends.set(text, { place, claimants })
  }

  #drop(text: string, key: ServicePortKey): void {
    const frontend = this.#frontends.get(text)
    if (frontend === undefined) return
    const claimants = frontend.claimants.filter((route) => route.key !== key)
    if (claimants.length === 0) this.#frontends.delete(text)
    else this.#frontends.set(text, { ...frontend, claimants })
  }
}
