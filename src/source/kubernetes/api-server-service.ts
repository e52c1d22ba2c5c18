import { isIPv6 } from 'node:net'
import { parseIpAddress } from '../../address.js'
import type { Peer } from '../../api/index.js'
import type { Log } from '../../log.js'
import {
  type EndpointSlice,
  type ObjectEvent,
  type ObjectKey,
  objectOf,
  type Service,
  type ServicePortSpec,
} from '../objects.js'
import type { ListedPart } from './listing-progress.js'

/** No other Service gets the address and port of the API server (docs/adr/0007). */
const defaultKubernetes = 'default/kubernetes'

/**
 * Keeps the agent's own way to the API server (docs/adr/0015-own-branch.md). Events that leave the Service on this way without backends
 * are withheld until it has backends again, another Service has the frontend, or the connection takes another way.
 */
export class ApiServerService implements ListedPart {
  readonly #peer: () => Peer | undefined
  readonly #log: Log
  /** Address and port of the Service that leads to the API server; undefined: no Service does. */
  #frontend: Peer | undefined
  /** `namespace/name` of the Service that has, or had, that frontend. */
  #name: string | undefined
  /** The Service as the API has it; undefined: it is deleted, or no longer has the frontend. */
  #service: Service | undefined
  /** Slices of the Service as the API has them, by key. */
  readonly #slices = new Map<string, EndpointSlice>()
  /** Slices of all Services, by key, until the first listing is over: they may come before their Service. */
  #early: Map<string, EndpointSlice> | undefined = new Map()
  /** The Service had backends, and they were delivered. */
  #wasBacked = false
  /** The last event of each object that waits, by kind and key. */
  readonly #withheld = new Map<string, ObjectEvent>()

  /** `peer`: undefined before the first connection. */
  constructor(peer: () => Peer | undefined, log: Log) {
    this.#peer = peer
    this.#log = log
  }

  get isListed(): boolean {
    return true
  }

  /** Whether the Service, if any, had backends. After a restart the last ones may be in the kernel only. */
  get isComplete(): boolean {
    return this.#service === undefined || this.#wasBacked
  }

  /** Call it when everything has been listed once: slices no longer wait for their Service. */
  endFirstListing(): void {
    this.#early = undefined
  }

  /** Returns the events that may be delivered now, of these and of the withheld ones. */
  pass(events: readonly ObjectEvent[]): readonly ObjectEvent[] {
    const passed = this.#leave()
    for (const event of events) {
      const isOurs = this.#learn(event) || this.#isWithheld(event)
      if (!isOurs) passed.push(event)
      else if (this.#wasBacked && !this.#isBacked()) this.#withhold(event)
      else this.#release(event, passed)
    }
    return passed
  }

  /** Forgets the Service if the connection has taken another way. Returns the events that were withheld for the Service. */
  #leave(): ObjectEvent[] {
    const [frontend, peer] = [this.#frontend, this.#peer()]
    if (frontend === undefined || peer === undefined) return []
    if (frontend.address === peer.address && frontend.port === peer.port) return []
    const withheld = [...this.#withheld.values()]
    if (withheld.length > 0) this.#logRelease()
    this.#withheld.clear()
    this.#slices.clear()
    this.#frontend = undefined
    this.#name = undefined
    this.#service = undefined
    this.#wasBacked = false
    return withheld
  }

  /** Whether an earlier event of the same object is withheld. */
  #isWithheld(event: ObjectEvent): boolean {
    return this.#withheld.size > 0 && this.#withheld.has(objectOf(event))
  }

  /** Notes the state in the event. Returns whether the event concerns the Service on the way to the API server. */
  #learn(event: ObjectEvent): boolean {
    if (event.type === 'set') {
      if (event.object.kind === 'Service') return this.#learnService(event.object)
      return event.object.kind === 'EndpointSlice' && this.#learnSlice(event.object)
    }
    if (event.type !== 'delete') return false
    const name = nameOf(event.key)
    if (event.kind === 'EndpointSlice') {
      this.#early?.delete(name)
      return this.#slices.delete(name)
    }
    if (event.kind !== 'Service' || name !== this.#name) return false
    this.#service = undefined
    return true
  }

  #learnService(service: Service): boolean {
    const isFrontend = this.#portOf(service) !== undefined
    const name = nameOf(service)
    if (name === this.#name) {
      this.#service = isFrontend ? service : undefined
      return true
    }
    if (name !== defaultKubernetes || !isFrontend || this.#service !== undefined) return false
    this.#frontend = this.#way
    this.#name = name
    this.#service = service
    this.#wasBacked = false
    this.#slices.clear()
    for (const slice of this.#early?.values() ?? []) this.#learnSlice(slice)
    return true
  }

  #learnSlice(slice: EndpointSlice): boolean {
    const key = nameOf(slice)
    this.#early?.set(key, slice)
    const wasOurs = this.#slices.delete(key)
    if (this.#name === undefined || this.#name !== `${slice.namespace}/${slice.serviceName}`) return wasOurs
    this.#slices.set(key, slice)
    return true
  }

  #isBacked(): boolean {
    const port = this.#service && this.#portOf(this.#service)
    const type = isIPv6(this.#way?.address ?? '') ? 'IPv6' : 'IPv4'
    return (
      port !== undefined &&
      [...this.#slices.values()].some((slice) => slice.addressType === type && backs(slice, port))
    )
  }

  get #way(): Peer | undefined {
    return this.#frontend ?? this.#peer()
  }

  /** The port of this Service through which the agent reaches the server; undefined: the Service has no such port. */
  #portOf({ ports, clusterIPs, externalIPs, loadBalancerIngress }: Service): ServicePortSpec | undefined {
    const peer = this.#way
    if (peer === undefined) return undefined
    const found = ports.find(({ port, protocol }) => protocol === 'TCP' && port === peer.port)
    if (found === undefined) return undefined
    const addresses = [...clusterIPs, ...externalIPs, ...loadBalancerIngress.map(({ ip }) => ip)]
    return addresses.some((text) => parseIpAddress(text) === peer.address) ? found : undefined
  }

  #withhold(event: ObjectEvent): void {
    if (this.#withheld.size === 0) {
      const fields = { service: this.#name ?? '' }
      this.#log.warn('Service of the API server has no endpoints; the last ones stay in use', fields)
    }
    this.#withheld.set(objectOf(event), event)
  }

  /** Delivers the event, then the withheld events of other objects: new backends come before the old ones go. */
  #release(event: ObjectEvent, passed: ObjectEvent[]): void {
    this.#wasBacked ||= this.#isBacked()
    passed.push(event)
    if (this.#withheld.size === 0) return
    this.#withheld.delete(objectOf(event))
    passed.push(...this.#withheld.values())
    this.#withheld.clear()
    this.#logRelease()
  }

  #logRelease(): void {
    const fields = { service: this.#name ?? '' }
    this.#log.info('Service of the API server uses its current endpoints again', fields)
  }
}

/** Whether connections to this port may go to an endpoint of the slice (F-032). */
function backs({ ports, endpoints }: EndpointSlice, wanted: ServicePortSpec): boolean {
  const isServed = ports.some(
    ({ name, protocol, port = 0 }) => name === wanted.name && protocol === wanted.protocol && port > 0,
  )
  if (!isServed) return false
  return endpoints.some(
    ({ conditions: { ready, serving, terminating } }) => ready || (serving && terminating),
  )
}

function nameOf({ namespace, name }: ObjectKey): string {
  return `${namespace}/${name}`
}
