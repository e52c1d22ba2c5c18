import { isDeepStrictEqual } from 'node:util'
import type { IpAddress, IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import type { KernelError } from '../../errors.js'
import { machineAddresses } from '../../host/index.js'
import {
  type Links,
  type Listener,
  type PortOp,
  type PortPlace,
  type Ports,
  type Routes,
  describePlace,
} from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import { type LocalAddresses, type NodeFacts, nodePortAddressesOf } from '../../node/index.js'
import { type Route, frontendProtocols } from '../../routing/index.js'
import type { TrafficConfig } from '../../engine/index.js'
import { askPorts, type PortReports, releaseStored } from './port-reports.js'

interface HeldPortsOptions {
  readonly family: IpFamily
  readonly config: TrafficConfig
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly ports: Ports
  readonly links: Links
  readonly routes: Routes
  readonly reports: PortReports
  readonly clock: Pick<Clock, 'now'>
  /** An address on which the agent itself listens on node ports. A socket on all addresses would hinder it. */
  readonly exceptAddress?: IpAddress | undefined
}

/** Time until ports that could not be held are tried again. */
const retryMs = 10_000

/** The facts for `HeldPorts.run`. */
interface HoldState {
  /** All objects are known. */
  readonly isComplete: boolean
  /** The machine's own addresses, if the setting of node-port addresses names some. */
  readonly machine: readonly IpAddress[]
}

/**
 * Holds the node ports of Services, and the ports of external IPs that this machine has, as long as the Services exist, so that no other
 * program gets them. A port that another program has is reported and tried again.
 */
export class HeldPorts {
  readonly #options: HeldPortsOptions
  readonly #claims = new Map<ServicePortKey, PortClaim>()
  readonly #changed = new Set<ServicePortKey>()
  /** Service ports with external IPs. */
  readonly #external = new Set<ServicePortKey>()
  readonly #places: HeldPlaces
  #addresses: HoldAddresses = { nodePorts: 'all', machine: new Set() }
  /** Places to hold and to release. */
  readonly #fresh = new Set<HeldPlace>()
  #leaving: PortPlace[] = []
  /** Places that could not be held, each with its last error. */
  readonly #waiting = new Map<HeldPlace, KernelError>()
  /** Those of them that another program has, each with the service port in its report. */
  readonly #inUse = new Map<HeldPlace, ServicePortKey>()
  /** Codes of reported errors that concern many ports alike. */
  #codes: ReadonlySet<string> = new Set()
  #retryDueMs = 0
  #isStoreBehind = false
  /** The ports that an earlier agent stored are compared with the desired ones. */
  #isStoreKnown = false

  constructor(options: HeldPortsOptions) {
    this.#options = options
    this.#places = new HeldPlaces(options.family)
  }

  /** The service port was compiled again; undefined: it was removed. */
  note(key: ServicePortKey, decided: Route | undefined): void {
    const former = this.#claims.get(key)
    const next = decided !== undefined && hasPorts(decided) ? decided : undefined
    if (former === undefined ? next === undefined : next !== undefined && isSameClaim(former, next)) return
    this.#changed.add(key)
    this.#external.delete(key)
    if (next === undefined) this.#claims.delete(key)
    else {
      const { protocol, port, nodePort, externalIPs } = next
      this.#claims.set(key, { protocol, port, nodePort, externalIPs })
      if (externalIPs.length > 0) this.#external.add(key)
    }
  }

  /** Makes the held ports equal to the desired ones, as far as the kernel lets it. */
  async run({ isComplete, machine }: HoldState): Promise<void> {
    const { clock } = this.#options
    const isRetryDue = clock.now() >= this.#retryDueMs
    if (isRetryDue) this.#retryDueMs = clock.now() + retryMs
    await this.#readAddresses(machine, isRetryDue)
    for (const key of this.#changed) this.#claim(key)
    this.#changed.clear()
    if (isRetryDue) for (const held of this.#waiting.keys()) this.#fresh.add(held)
    const isStoreDue = isRetryDue && this.#isStoreBehind
    if (this.#fresh.size > 0 || this.#leaving.length > 0 || isStoreDue) await this.#apply()
    if (isComplete && !this.#isStoreKnown)
      this.#isStoreKnown = await releaseStored(this.#options, this.#places)
  }

  /** Lets service ports whose places depend on changed addresses claim again. */
  async #readAddresses(machine: readonly IpAddress[], isRetryDue: boolean): Promise<void> {
    const { family, config, node, exceptAddress } = this.#options
    const named = nodePortAddressesOf({ family, config, node: node.facts }, machine)
    const isAllButOne = named === 'all' && exceptAddress !== undefined
    if (!isAllButOne) this.#setNodePorts(named)
    if (!isAllButOne && this.#external.size === 0) return
    if (this.#changed.size > 0 || isRetryDue) await this.#readMachine()
    if (isAllButOne)
      this.#setNodePorts([...this.#addresses.machine].filter((address) => address !== exceptAddress))
  }

  #setNodePorts(nodePorts: LocalAddresses): void {
    if (isDeepStrictEqual(nodePorts, this.#addresses.nodePorts)) return
    this.#addresses = { ...this.#addresses, nodePorts }
    for (const key of this.#claims.keys()) this.#changed.add(key)
  }

  async #readMachine(): Promise<void> {
    const { family, reports } = this.#options
    const read = async (): Promise<readonly IpAddress[]> => await machineAddresses(family, this.#options)
    const addresses = await askPorts(reports, 'addresses of this machine', read)
    // Unknown addresses are no reason to release a port.
    if (addresses === undefined) return
    const own = new Set(addresses)
    if (isDeepStrictEqual(own, this.#addresses.machine)) return
    this.#addresses = { ...this.#addresses, machine: own }
    for (const key of this.#external) this.#changed.add(key)
  }

  #claim(key: ServicePortKey): void {
    const { added, removed } = this.#places.claim(key, this.#claims.get(key), this.#addresses)
    for (const held of added) this.#fresh.add(held)
    for (const held of removed) {
      const isHeld = !this.#fresh.delete(held) && !this.#waiting.delete(held)
      if (isHeld) this.#leaving.push(held.place)
      this.#endInUse(held, (reported) => this.#options.reports.forget(reported, held.place))
    }
  }

  async #apply(): Promise<void> {
    const { ports, reports } = this.#options
    const [leaving, fresh] = [this.#leaving, [...this.#fresh]]
    const ops: readonly PortOp[] = [
      ...leaving.map((place) => ({ op: 'release', place }) as const),
      ...fresh.map(({ place }) => ({ op: 'hold', place }) as const),
    ]
    const outcome = await askPorts(reports, 'held ports', () => ports.apply(ops))
    if (outcome === undefined) return
    this.#leaving = []
    this.#fresh.clear()
    const errors = new Map(outcome.failures.map(({ index, error }) => [index - leaving.length, error]))
    for (const [index, held] of fresh.entries()) this.#confirm(held, errors.get(index))
    reports.refusal('stored ports', outcome.storeError)
    this.#isStoreBehind = outcome.storeError !== undefined
    this.#reportCodes()
    await this.#reportInUse(fresh.filter((held) => this.#waiting.get(held)?.code === 'EADDRINUSE'))
  }

  #confirm(held: HeldPlace, error: KernelError | undefined): void {
    if (error === undefined) this.#waiting.delete(held)
    else this.#waiting.set(held, error)
    if (error?.code !== 'EADDRINUSE')
      this.#endInUse(held, (reported) => this.#options.reports.free(reported, held.place))
  }

  #endInUse(held: HeldPlace, report: (reported: ServicePortKey) => void): void {
    const reported = this.#inUse.get(held)
    if (reported === undefined) return
    this.#inUse.delete(held)
    report(reported)
  }

  /** Names the programs that have these places. Another agent's held port is no problem: that agent ends, or holds it for both. */
  async #reportInUse(taken: readonly HeldPlace[]): Promise<void> {
    if (taken.length === 0) return
    const { family, ports, reports } = this.#options
    const asked = taken.flatMap(({ place: { protocol, port } }) =>
      protocol === 'sctp' ? [] : [{ protocol, port }],
    )
    const listeners = await askPorts(reports, 'check of ports', () => ports.find(family, asked))
    for (const held of taken) {
      const found = listeners?.filter((listener) => isOn(listener, held.place)) ?? []
      const other = found.find(({ isHeld, isOwn }) => !isHeld && !isOwn)
      if (other === undefined && found.length > 0) {
        this.#endInUse(held, (reported) => reports.free(reported, held.place))
        continue
      }
      const [first] = held.claimants
      if (first === undefined) continue
      this.#endInUse(held, (reported) => reported !== first && reports.forget(reported, held.place))
      this.#inUse.set(held, first)
      reports.inUse(first, held.place, other)
    }
  }

  /** One report for all ports that fail with the same code. An address that is new or going away needs none. */
  #reportCodes(): void {
    const { reports } = this.#options
    const errors = new Map<string, KernelError>()
    for (const error of this.#waiting.values())
      if (error.code !== 'EADDRINUSE' && error.code !== 'EADDRNOTAVAIL') errors.set(error.code, error)
    for (const code of new Set([...this.#codes, ...errors.keys()]))
      reports.refusal(`ports with ${code}`, errors.get(code))
    this.#codes = new Set(errors.keys())
  }
}

function hasPorts({ nodePort, externalIPs }: Route): boolean {
  return nodePort !== 0 || externalIPs.length > 0
}

function isOn(listener: Listener, { protocol, address, port }: PortPlace): boolean {
  if (listener.protocol !== protocol || listener.port !== port) return false
  return address === undefined || listener.address === undefined || listener.address === address
}

/** The properties of a route that decide which ports it holds. */
type PortClaim = Pick<Route, 'protocol' | 'port' | 'nodePort' | 'externalIPs'>

/** The addresses that the places depend on. */
interface HoldAddresses {
  /** The addresses that serve node ports. */
  readonly nodePorts: LocalAddresses
  /** The machine's own addresses: a port of another external IP is not held. */
  readonly machine: ReadonlySet<IpAddress>
}

/** A port that at least one service port claims. */
interface HeldPlace {
  readonly place: PortPlace
  /** In the order of their claims. The first one stands in reports. */
  readonly claimants: Set<ServicePortKey>
}

/** The changes of `claim`: places that got their first claimant, and that lost their last one. */
interface PlaceChanges {
  readonly added: readonly HeldPlace[]
  readonly removed: readonly HeldPlace[]
}

/** The desired places of one family, by their descriptions. */
class HeldPlaces {
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
function isSameClaim(a: PortClaim, b: PortClaim): boolean {
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
