import type { IpFamily } from '../address.js'
import {
  type EndpointSlice,
  type KubernetesObject,
  type ObjectEvent,
  type ObjectKey,
  readLabels,
  type Service,
} from '../source/index.js'
import { type Endpoint, readSlice } from './endpoint.js'
import type { ExposureRules } from './exposure.js'
import { type HealthCheck, HealthChecks } from './health-checks.js'
import { equalServicePorts, readServicePorts, servicePortKey } from './service-port.js'
import type { ServicePort, ServicePortKey } from './service-port.js'
import { type ChangedPorts, SliceCache } from './slice-cache.js'

/** What is wrong with an object now; an empty list: it is in order; undefined: it is gone, or not our business. */
export type ReportProblems = (object: string, problems: readonly string[] | undefined) => void

/** Turns events into dirty service ports of one IP family; the cost of an event does not depend on what else exists. */
export class Tracker {
  readonly #family: IpFamily
  readonly #report: ReportProblems
  readonly #rules: ExposureRules
  readonly #ports = new Map<ServicePortKey, ServicePort>()
  readonly #portsOf = new Map<string, readonly ServicePort[]>()
  readonly #slices = new SliceCache()
  readonly #healthChecks = new HealthChecks((service) => this.#slices.allEndpoints(service))
  /** Objects with problems that were reported. */
  readonly #troubled = new Set<string>()
  #dirty = new Set<ServicePortKey>()

  /** `report` is told of an object that has problems, and of one that has none any more. */
  constructor(family: IpFamily, report: ReportProblems, rules: ExposureRules = { allowsExternalIPs: true }) {
    this.#family = family
    this.#report = report
    this.#rules = rules
  }

  /**
   * Takes one event in; Nodes and `synced` are not its business. False: an EndpointSlice whose endpoints are as they were (F-025),
   * whatever else of it has changed.
   */
  apply(event: ObjectEvent): boolean {
    if (event.type === 'set') return this.#set(event.object)
    if (event.type === 'delete') this.#delete(event.kind, event.key)
    return true
  }

  get hasDirty(): boolean {
    return this.#dirty.size > 0
  }

  /** The service ports that changed since the last call. */
  take(): ReadonlySet<ServicePortKey> {
    const dirty = this.#dirty
    this.#dirty = new Set()
    return dirty
  }

  /** Makes every service port dirty: something that all of them may depend on changed, such as the node's zone. */
  markAll(): void {
    for (const key of this.#ports.keys()) this.#dirty.add(key)
  }

  /** These service ports are to be looked at again, as far as they exist. */
  mark(keys: Iterable<ServicePortKey>): void {
    for (const key of keys) if (this.#ports.has(key)) this.#dirty.add(key)
  }

  /** `namespace/name` of the Service that an EndpointSlice of this family serves; undefined: the slice is not known. */
  serviceOf(slice: ObjectKey): string | undefined {
    return this.#slices.owner(objectName(slice))
  }

  /** undefined: there is no such service port (any more). */
  servicePort(key: ServicePortKey): ServicePort | undefined {
    return this.#ports.get(key)
  }

  /** Merged over the slices, without duplicates, in bytewise order of `address:port` (F-031). */
  endpoints(port: ServicePort): readonly Endpoint[] {
    return this.#slices.endpoints(port.service, port.portId)
  }

  get servicePortCount(): number {
    return this.#ports.size
  }

  /** Of all slices together, whether their Service is known or not; one that several slices have counts as often. */
  get endpointCount(): number {
    return this.#slices.endpointCount
  }

  /**
   * Health checks that load balancers may ask on this node, by `namespace/name`. The same map as before as long as nothing
   * changed; `nodeName` is always the same.
   */
  healthChecks(nodeName: string): ReadonlyMap<string, HealthCheck> {
    return this.#healthChecks.current(nodeName)
  }

  #set(object: KubernetesObject): boolean {
    if (object.kind === 'EndpointSlice') return this.#setSlice(object)
    if (object.kind === 'Service') this.#setService(object)
    return true
  }

  #delete(kind: KubernetesObject['kind'], key: ObjectKey): void {
    const name = objectName(key)
    if (kind === 'Service') this.#replacePorts(name, [])
    else if (kind === 'EndpointSlice') this.#markChanged(this.#slices.remove(name))
    else return
    this.#tell(kind, name, undefined)
  }

  #setService(service: Service): void {
    const { ports, problems } = readServicePorts(service, this.#family, this.#rules)
    const name = objectName(service)
    this.#replacePorts(name, ports)
    const isOurs = ports.length > 0 || problems.length > 0
    this.#tell('Service', name, isOurs ? problems : undefined)
  }

  #tell(kind: KubernetesObject['kind'], name: string, problems: readonly string[] | undefined): void {
    const isTroubled = problems !== undefined && problems.length > 0
    if (!isTroubled && this.#troubled.size === 0) return
    const object = `${kind} ${name}`
    if (isTroubled) this.#troubled.add(object)
    else if (!this.#troubled.delete(object)) return
    this.#report(object, problems)
  }

  #replacePorts(service: string, ports: readonly ServicePort[]): void {
    if (ports.length === 0 && this.#portsOf.size === 0) return
    const before = this.#portsOf.get(service)
    for (const port of ports) {
      const former = this.#ports.get(port.key)
      if (former === undefined || !equalServicePorts(former, port)) this.#dirty.add(port.key)
      this.#ports.set(port.key, port)
    }
    for (const { key } of before ?? []) {
      if (ports.some((port) => port.key === key)) continue
      this.#ports.delete(key)
      this.#dirty.add(key)
    }
    this.#healthChecks.setService(service, ports)
    if (ports.length > 0) this.#portsOf.set(service, ports)
    else if (before !== undefined) this.#portsOf.delete(service)
  }

  /** Whether it changed endpoints. */
  #setSlice(slice: EndpointSlice): boolean {
    const name = objectName(slice)
    if (!this.#isOurs(slice) || slice.serviceName === undefined) {
      const left = this.#slices.remove(name)
      this.#markChanged(left)
      this.#tell('EndpointSlice', name, undefined)
      return left.length > 0
    }
    const { ports, problems } = readSlice(slice, this.#family)
    const changed = this.#slices.set(name, `${slice.namespace}/${slice.serviceName}`, ports)
    this.#markChanged(changed)
    this.#tell('EndpointSlice', name, problems)
    return changed.length > 0
  }

  #isOurs(slice: EndpointSlice): boolean {
    const family = slice.addressType === 'IPv4' ? 'ipv4' : 'ipv6'
    if (slice.addressType === 'FQDN' || family !== this.#family) return false
    return !(readLabels.headless in slice.labels)
  }

  #markChanged(changes: readonly ChangedPorts[]): void {
    for (const { service, portIds } of changes) {
      this.#healthChecks.markChanged(service)
      for (const portId of portIds) {
        const key = servicePortKey(service, portId)
        // Without its Service a port is no work yet; the Service makes it dirty when it comes.
        if (this.#ports.has(key)) this.#dirty.add(key)
      }
    }
  }
}

function objectName(key: ObjectKey): string {
  return `${key.namespace}/${key.name}`
}
