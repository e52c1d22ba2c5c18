// The ports that Services desire to hold, each with the service ports that claim it. Pure.
import type { IpAddress, IpFamily } from '../../address.js'
import { describePlace, type PortPlace } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { LocalAddresses } from '../../node/index.js'
import { frontendProtocols, type Route } from '../../routing/index.js'

/** The properties of a route that decide which ports it holds. */
export type PortClaim = Pick<Route, 'protocol' | 'port' | 'nodePort' | 'externalIPs'>

/** The addresses that the places depend on. */
export interface HoldAddresses {
  /** The addresses that serve node ports. */
  readonly nodePorts: LocalAddresses
  /** The machine's own addresses: a port of another external IP is not held. */
  readonly machine: ReadonlySet<IpAddress>
}

/** A port that at least one service port claims. */
export interface HeldPlace {
  readonly place: PortPlace
  /** In the order of their claims. The first one stands in reports. */
  readonly claimants: Set<ServicePortKey>
}

/** The changes of `claim`: places that got their first claimant, and that lost their last one. */
export interface PlaceChanges {
  readonly added: readonly HeldPlace[]
  readonly removed: readonly HeldPlace[]
}

/** The desired places of one family, by their descriptions. */
export class HeldPlaces {
  readonly #family: IpFamily
  readonly #places = new Map<string, HeldPlace>()
  readonly #namesOf = new Map<ServicePortKey, readonly string[]>()

  constructor(family: IpFamily) {
    this.#family = family
  }

  /** Whether the place with this description is desired. */
  has(description: string): boolean {
    return this.#places.has(description)
  }

  /** Replaces the places that a service port claims; undefined: it claims none. */
  claim(key: ServicePortKey, claim: PortClaim | undefined, addresses: HoldAddresses): PlaceChanges {
    const wanted = new Map<string, PortPlace>()
    if (claim !== undefined)
      for (const place of placesOf(this.#family, claim, addresses)) wanted.set(describePlace(place), place)
    const removed = (this.#namesOf.get(key) ?? []).flatMap((name) =>
      wanted.has(name) ? [] : this.#drop(name, key),
    )
    const added = [...wanted].flatMap(([name, place]) => this.#put(name, place, key))
    if (wanted.size === 0) this.#namesOf.delete(key)
    else this.#namesOf.set(key, [...wanted.keys()])
    return { added, removed }
  }

  #put(name: string, place: PortPlace, key: ServicePortKey): readonly HeldPlace[] {
    const known = this.#places.get(name)
    if (known !== undefined) {
      known.claimants.add(key)
      return []
    }
    const made = { place, claimants: new Set([key]) }
    this.#places.set(name, made)
    return [made]
  }

  #drop(name: string, key: ServicePortKey): readonly HeldPlace[] {
    const known = this.#places.get(name)
    known?.claimants.delete(key)
    if (known === undefined || known.claimants.size > 0) return []
    this.#places.delete(name)
    return [known]
  }
}

/** Whether the two claims lead to the same places. */
export function isSameClaim(a: PortClaim, b: PortClaim): boolean {
  return (
    a.protocol === b.protocol &&
    a.nodePort === b.nodePort &&
    a.port === b.port &&
    a.externalIPs.length === b.externalIPs.length &&
    a.externalIPs.every((address, index) => address === b.externalIPs[index])
  )
}

function placesOf(
  family: IpFamily,
  { protocol: name, port, nodePort, externalIPs }: PortClaim,
  { nodePorts, machine }: HoldAddresses,
): readonly PortPlace[] {
  const protocol = frontendProtocols[name]
  const own = externalIPs.filter((address) => machine.has(address))
  const places: PortPlace[] = own.map((address) => ({ family, protocol, address, port }))
  if (nodePort === 0) return places
  const addresses = nodePorts === 'all' ? [undefined] : nodePorts
  return [...places, ...addresses.map((address) => ({ family, protocol, address, port: nodePort }))]
}
