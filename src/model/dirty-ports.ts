// The dirty service ports of one IP family, in the order in which they take their turns.
import { serviceOfPort, type ServicePortKey } from './service-port.js'

/** The dirty ports of one Service. */
interface DirtyService {
  readonly name: string
  /** By key, the port that waits longest first: the generation in which each became dirty. */
  readonly ports: Map<ServicePortKey, number>
  /** Units of work of one port. */
  unitsPerPort: number
  /** Index in `DirtyPorts.#bySize`. */
  size: number
}

const none: ReadonlySet<ServicePortKey> = new Set()

/** Work of the partners that a share takes at least, however small it is: 40 ports with 100 endpoints. */
const fewestPartnerUnits = 4096

/** A part of the dirty service ports. */
export interface Share {
  /** The units of work, about. */
  readonly units: number
  /** It has only Services with little work, in half of the units: none gets a turn. Default: false. */
  readonly isSmall?: boolean
}

/** Sizes are powers of two, and a Service has less than 2^32 units of work. */
const sizes = 32

/**
 * The dirty service ports of one family. Services take turns, so that none waits for all the work of another: half of each share goes to
 * the Services with the least work, and the rest to the Service whose last turn is longest ago, which then waits for its next turn behind
 * all others. So the changes of a small Service are in the next share, and each Service has a port in one of the next N shares, where N
 * is the number of Services that wait before it. Work is counted in units: one for a port, and one for each frontend and endpoint that it
 * has or had. A port that takes a frontend from another one is in the share of that one, so that the frontend is served all the time.
 */
export class DirtyPorts {
  /** By name, in the order of turns. */
  readonly #services = new Map<string, DirtyService>()
  /** The same by the logarithm of their units of work, each list in the order in which they came to it. */
  readonly #bySize = Array.from({ length: sizes }, () => new Map<string, DirtyService>())
  /** Number of ports by the generation in which they became dirty, oldest first. */
  readonly #sinceCounts = new Map<number, number>()
  /** The dirty ports that each frontend was taken from. */
  readonly #givers = new Map<string, ServicePortKey>()
  /** The frontends in `#givers` of each port. */
  readonly #given = new Map<ServicePortKey, readonly string[]>()
  /** Ports that take frontends from each other. */
  readonly #partners = new Map<ServicePortKey, Set<ServicePortKey>>()
  #generation = 0
  #areAll = false

  /** Number of Services with dirty ports. */
  get serviceCount(): number {
    return this.#services.size
  }

  /** Every service port became dirty by one change, and not all have been taken since. */
  get areAll(): boolean {
    return this.#areAll
  }

  /** Ports that become dirty from now on have this generation or a later one. */
  get generation(): number {
    return this.#generation
  }

  has(key: ServicePortKey): boolean {
    return this.#services.get(serviceOfPort(key))?.ports.has(key) === true
  }

  /** Whether a port of the Service waits that became dirty in this generation or before. undefined: a port of any Service. */
  hasSince(service: string | undefined, generation: number): boolean {
    if (service === undefined) {
      for (const since of this.#sinceCounts.keys()) return since <= generation
      return false
    }
    for (const since of this.#services.get(service)?.ports.values() ?? []) return since <= generation
    return false
  }

  /** Makes a port dirty. `parts`: the number of its frontends and endpoints, now or before. A port that is dirty keeps its place. */
  add(key: ServicePortKey, parts: number): void {
    const name = serviceOfPort(key)
    const known = this.#services.get(name)
    const service = known ?? { name, ports: new Map(), unitsPerPort: 0, size: 0 }
    if (known === undefined) this.#services.set(name, service)
    if (!service.ports.has(key)) {
      service.ports.set(key, this.#generation)
      this.#sinceCounts.set(this.#generation, (this.#sinceCounts.get(this.#generation) ?? 0) + 1)
    }
    // Endpoints and frontends that came and went since the kernel had the port are work too.
    service.unitsPerPort = Math.max(service.unitsPerPort, 1 + parts)
    this.#sort(service)
  }

  /** The caller has made every service port dirty. */
  noteAll(): void {
    this.#areAll = true
  }

  /** The dirty port has these frontends no more. */
  noteGiven(key: ServicePortKey, frontends: Iterable<string>): void {
    const given = [...(this.#given.get(key) ?? []), ...frontends]
    if (given.length === 0) return
    this.#given.set(key, given)
    for (const frontend of given) this.#givers.set(frontend, key)
  }

  /** The dirty port has got these frontends. Follows `noteGiven` of the ports that had them. */
  noteTaken(key: ServicePortKey, frontends: Iterable<string>): void {
    if (this.#givers.size === 0) return
    for (const frontend of frontends) {
      const giver = this.#givers.get(frontend)
      if (giver === undefined || giver === key || !this.has(giver)) continue
      this.#partnersOf(giver).add(key)
      this.#partnersOf(key).add(giver)
    }
  }

  /** The port is taken out of its turn. */
  discard(key: ServicePortKey): void {
    const service = this.#services.get(serviceOfPort(key))
    if (service === undefined || !this.#takePort(service, key)) return
    if (service.ports.size === 0) this.#remove(service)
    else this.#sort(service)
  }

  /** Takes all dirty ports. */
  takeAll(): Set<ServicePortKey> {
    const taken = new Set<ServicePortKey>()
    for (const { ports } of this.#services.values()) for (const key of ports.keys()) taken.add(key)
    this.#services.clear()
    for (const list of this.#bySize) list.clear()
    this.#sinceCounts.clear()
    this.#end()
    return taken
  }

  /** Takes a share, with at least one port if there is any, unless it is a small one. */
  takeShare({ units, isSmall = false }: Share): Set<ServicePortKey> {
    const taken = new Set<ServicePortKey>()
    const spent = this.#takeSmall(units / 2, taken)
    let left = isSmall ? 0 : units - spent
    // Each Service has one turn at most: those that go to the end come again in the next share.
    for (const service of this.#turnsFor(left)) {
      if (left <= 0) break
      left -= this.#takeTurn(service, left, taken)
    }
    this.#takePartners(units, taken)
    this.#end()
    return taken
  }

  /** Takes the ports that take frontends from those of the share, or give them. */
  #takePartners(units: number, taken: Set<ServicePortKey>): void {
    let left = Math.max(units, fewestPartnerUnits)
    // NB: the set grows in the loop.
    for (const key of this.#partners.size === 0 ? none : taken)
      for (const partner of this.#partners.get(key) ?? none) {
        const service = this.#services.get(serviceOfPort(partner))
        if (left <= 0 || service?.ports.has(partner) !== true) continue
        left -= service.unitsPerPort
        this.discard(partner)
        taken.add(partner)
      }
    for (const key of taken) this.#partners.delete(key)
  }

  /** Takes whole Services, the smallest first. Returns their units. */
  #takeSmall(units: number, taken: Set<ServicePortKey>): number {
    let spent = 0
    for (const list of this.#bySize) {
      for (const service of list.values()) {
        const work = unitsOf(service)
        if (spent + work > units) return spent
        spent += work
        for (const key of service.ports.keys()) {
          this.#takePort(service, key)
          taken.add(key)
        }
        this.#remove(service)
      }
    }
    return spent
  }

  /** The Services that are next, as many as have these units together. */
  #turnsFor(units: number): readonly DirtyService[] {
    const services: DirtyService[] = []
    let left = units
    for (const service of this.#services.values()) {
      if (left <= 0) break
      left -= unitsOf(service)
      services.push(service)
    }
    return services
  }

  #takeTurn(service: DirtyService, units: number, taken: Set<ServicePortKey>): number {
    let spent = 0
    for (const key of service.ports.keys()) {
      if (spent >= units) break
      spent += service.unitsPerPort
      this.#takePort(service, key)
      taken.add(key)
    }
    this.#services.delete(service.name)
    if (service.ports.size === 0) this.#remove(service)
    else {
      this.#services.set(service.name, service)
      this.#sort(service)
    }
    return spent
  }

  #end(): void {
    this.#generation++
    if (this.#services.size > 0) return
    this.#areAll = false
    this.#givers.clear()
    this.#given.clear()
    this.#partners.clear()
  }

  /** False: the Service does not have the port. */
  #takePort(service: DirtyService, key: ServicePortKey): boolean {
    const since = service.ports.get(key)
    if (since === undefined) return false
    service.ports.delete(key)
    for (const frontend of this.#given.get(key) ?? [])
      if (this.#givers.get(frontend) === key) this.#givers.delete(frontend)
    this.#given.delete(key)
    const others = (this.#sinceCounts.get(since) ?? 1) - 1
    if (others > 0) this.#sinceCounts.set(since, others)
    else this.#sinceCounts.delete(since)
    return true
  }

  #partnersOf(key: ServicePortKey): Set<ServicePortKey> {
    const known = this.#partners.get(key)
    if (known !== undefined) return known
    const partners = new Set<ServicePortKey>()
    this.#partners.set(key, partners)
    return partners
  }

  #sort(service: DirtyService): void {
    const size = Math.min(sizes - 1, Math.floor(Math.log2(unitsOf(service))))
    if (size !== service.size) this.#bySize[service.size]?.delete(service.name)
    service.size = size
    this.#bySize[size]?.set(service.name, service)
  }

  #remove(service: DirtyService): void {
    this.#services.delete(service.name)
    this.#bySize[service.size]?.delete(service.name)
  }
}

function unitsOf({ ports, unitsPerPort }: DirtyService): number {
  return ports.size * unitsPerPort
}
