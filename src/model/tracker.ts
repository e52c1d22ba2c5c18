// The Services, EndpointSlices and ServiceCIDRs of the cluster, once per agent. Each family has a part (family-tracker.ts).
import type { IpFamily } from '../address.js'
import type { KubernetesObject, ObjectChange, ObjectEvent, ObjectKey } from '../source/index.js'
import type { ExposureRules } from './exposure.js'
import { FamilyTracker } from './family-tracker.js'
import { ServiceCidrs } from './service-cidrs.js'
import { familiesOfService, objectName } from './service-port.js'

const bothFamilies: readonly IpFamily[] = ['ipv4', 'ipv6']

/** The Service that an EndpointSlice belongs to. */
interface SliceOwner {
  readonly family: IpFamily
  /** `namespace/name`. */
  readonly service: string
}

/** The effect of an event. */
export interface Applied {
  /**
   * The families in which it changed something: a service port, for a Service, or an endpoint, for an EndpointSlice (F-025). All families
   * for another event.
   */
  readonly families: readonly IpFamily[]
  /** The owner of an EndpointSlice that is gone. Absent: none is gone. */
  readonly lost?: SliceOwner | undefined
}

/** Turns events into dirty service ports. The cost of an event does not depend on the number of other objects. */
export class Tracker {
  readonly #rules: ExposureRules
  readonly #serviceCidrs = new ServiceCidrs()
  readonly #parts: Record<IpFamily, FamilyTracker>
  #families = bothFamilies

  constructor(rules: ExposureRules = { allowsExternalIPs: true }) {
    this.#rules = rules
    this.#parts = { ipv4: this.#open('ipv4'), ipv6: this.#open('ipv6') }
  }

  /** The objects of one family. */
  of(family: IpFamily): FamilyTracker {
    return this.#parts[family]
  }

  /** Forgets the objects of all other families, and ignores theirs from now on. */
  keepOnly(families: readonly IpFamily[]): void {
    this.#families = families
    for (const family of bothFamilies)
      if (!families.includes(family)) this.#parts[family] = this.#open(family)
  }

  /**
   * The families that a change of a Service or an EndpointSlice may concern: those that its new state names, and those that have the
   * object now. All families for another object.
   */
  concerned(change: ObjectChange): readonly IpFamily[] {
    const { kind } = change.type === 'set' ? change.object : change
    if (kind !== 'Service' && kind !== 'EndpointSlice') return this.#families
    const named = change.type === 'set' ? familiesOf(change.object) : []
    const key = change.type === 'set' ? change.object : change.key
    return this.#families.filter((family) => named.includes(family) || this.#parts[family].knows(kind, key))
  }

  /** Applies one event. */
  apply(event: ObjectEvent): Applied {
    if (event.type === 'set' || event.type === 'delete') return this.#change(event, this.concerned(event))
    this.#serviceCidrs.apply(event)
    return { families: this.#families }
  }

  /** Applies the change, unless a family that it concerns has dirty service ports: then it returns undefined. */
  applyUnlessDirty(change: ObjectChange): Applied | undefined {
    const concerned = this.concerned(change)
    for (const family of concerned) if (this.#parts[family].hasDirty) return undefined
    return this.#change(change, concerned)
  }

  #open(family: IpFamily): FamilyTracker {
    return new FamilyTracker(family, this.#rules, this.#serviceCidrs)
  }

  #change(change: ObjectChange, concerned: readonly IpFamily[]): Applied {
    if (change.type === 'delete') return this.#remove(change, concerned)
    const { object } = change
    if (object.kind === 'Service')
      return { families: concerned.filter((family) => this.#parts[family].setService(object)) }
    if (object.kind === 'EndpointSlice')
      return { families: concerned.filter((family) => this.#parts[family].setSlice(object)) }
    if (object.kind === 'ServiceCIDR') this.#serviceCidrs.set(object)
    return { families: concerned }
  }

  #remove(
    { kind, key }: Extract<ObjectChange, { readonly type: 'delete' }>,
    concerned: readonly IpFamily[],
  ): Applied {
    if (kind === 'ServiceCIDR') this.#serviceCidrs.remove(key.name)
    if (kind !== 'Service' && kind !== 'EndpointSlice') return { families: concerned }
    const lost = kind === 'EndpointSlice' ? this.#ownerOf(key) : undefined
    return { families: concerned.filter((family) => this.#parts[family].remove(kind, key)), lost }
  }

  /** undefined: the slice is unknown. */
  #ownerOf(slice: ObjectKey): SliceOwner | undefined {
    const name = objectName(slice)
    for (const family of this.#families) {
      const service = this.#parts[family].serviceOf(name)
      if (service !== undefined) return { family, service }
    }
    return undefined
  }
}

/** The families that the new state of the object names. */
function familiesOf(object: KubernetesObject): readonly IpFamily[] {
  if (object.kind === 'Service') return familiesOfService(object)
  if (object.kind !== 'EndpointSlice' || object.addressType === 'FQDN') return []
  return object.addressType === 'IPv4' ? ['ipv4'] : ['ipv6']
}
