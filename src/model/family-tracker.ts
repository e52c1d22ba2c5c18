// The Services and endpoints of one IP family. The tracker (tracker.ts) hands it the objects.
import type { Cidr, IpFamily } from '../address.js'
import {
  type EndpointSlice,
  type ObjectKey,
  readLabels,
  type Service,
  type ServiceProtocol,
} from '../source/index.js'
import { type Endpoint, readSlice } from './endpoint.js'
import { DirtyPorts, type Share } from './dirty-ports.js'
import type { ExposureRules } from './exposure.js'
import { type HealthCheck, HealthChecks } from './health-checks.js'
import { PortIndex } from './port-index.js'
import type { ServiceCidrs } from './service-cidrs.js'
import {
  type Seniority,
  equalServicePorts,
  frontendTexts,
  objectName,
  readServicePorts,
  servicePortKey,
  servicePortName,
  type ServicePort,
  type ServicePortKey,
} from './service-port.js'
import { type ChangedPorts, SliceCache } from './slice-cache.js'

/** A kind of object that only some families have. */
export type FamilyKind = 'Service' | 'EndpointSlice'

/** An object that has problems, or is a Service without a cluster IP. */
export interface ReportedObject {
  readonly kind: FamilyKind
  /** `namespace/name`. */
  readonly name: string
}

/** A service port that changed; `before` undefined: it is new. `after` undefined: it is gone. */
interface PortChange {
  readonly key: ServicePortKey
  readonly before: ServicePort | undefined
  readonly after: ServicePort | undefined
}

/** The last report of an object. */
interface ObjectReport {
  readonly problems: readonly string[]
  /** The frontends of a Service without a cluster IP, in words. */
  readonly servedAt: string | undefined
}

/**
 * Receives an object's problems. An empty list: they are solved. undefined: the object was deleted, or this family ignores it. `servedAt`:
 * the frontends of a Service without a cluster IP, in words.
 */
export type ReportProblems = (
  object: ReportedObject,
  problems: readonly string[] | undefined,
  servedAt: string | undefined,
) => void

/** The known service ports of one IP family, for readers that change nothing. */
export interface ServiceView {
  /** All service ports, in no order. NB: ends early or repeats ports if events are applied meanwhile. */
  servicePorts(): Iterable<ServicePort>
  /** The service ports of the Service `namespace/name`; empty: it is unknown. */
  servicePortsOf(service: string): readonly ServicePort[]
  /** The service ports with this node port, in no order; normally one at most. */
  withNodePort(protocol: ServiceProtocol, nodePort: number): readonly ServicePort[]
  /** The ports of the Services with this health check port, in no order; normally those of one Service at most. */
  withHealthCheckPort(port: number): readonly ServicePort[]
  /** The Service that owns this health check port (docs/adr/0007); undefined: no Service has it. */
  healthCheckOwner(port: number): Seniority | undefined
  /** The endpoints of all slices, without duplicates, in bytewise order of `address:port` (F-031). */
  endpoints(port: ServicePort): readonly Endpoint[]
  readonly servicePortCount: number
  /** Number of endpoints in all slices. */
  readonly endpointCount: number
}

/** A service port, and the endpoints of all its slices. */
export interface PortWithEndpoints {
  readonly port: ServicePort
  readonly endpoints: readonly Endpoint[]
}

/**
 * The Services and EndpointSlices of one IP family, and its dirty service ports. The cost of a change does not depend on the number of
 * other objects.
 */
export class FamilyTracker implements ServiceView {
  readonly #family: IpFamily
  readonly #rules: ExposureRules
  readonly #ports = new Map<ServicePortKey, ServicePort>()
  readonly #portsOf = new Map<string, readonly ServicePort[]>()
  readonly #index = new PortIndex()
  readonly #slices = new SliceCache()
  readonly #serviceCidrs: ServiceCidrs
  readonly #healthChecks = new HealthChecks((service) => this.#slices.allEndpoints(service))
  /** Objects with problems, or without a cluster IP, by kind and name. */
  readonly #reported = new Map<string, ReportedObject & ObjectReport>()
  #report: ReportProblems | undefined
  readonly #dirty = new DirtyPorts()

  /** `serviceCidrs`: those of both families. */
  constructor(family: IpFamily, rules: ExposureRules, serviceCidrs: ServiceCidrs) {
    this.#family = family
    this.#rules = rules
    this.#serviceCidrs = serviceCidrs
  }

  /** From now on calls `report` for an object that has problems or no cluster IP, and once more when that has ended. */
  reportTo(report: ReportProblems): void {
    this.#report = report
    for (const { kind, name, problems, servedAt } of this.#reported.values())
      report({ kind, name }, problems, servedAt)
  }

  /** Whether a change of the object may change something though its new state is not of this family. */
  knows(kind: FamilyKind, key: ObjectKey): boolean {
    if (this.#reported.size > 0 && this.#reported.has(`${kind} ${objectName(key)}`)) return true
    // An empty family, as in a cluster with one. A look-up would build the text of the key.
    if (kind === 'Service') return this.#portsOf.size > 0 && this.#portsOf.has(objectName(key))
    return this.#slices.size > 0 && this.#slices.owner(objectName(key)) !== undefined
  }

  /** Returns whether a service port changed. */
  setService(service: Service): boolean {
    const { ports, problems, servedAt } = readServicePorts(service, this.#family, this.#rules)
    // The ports have the same text already.
    const name = ports[0]?.service ?? objectName(service)
    const isOurs = ports.length > 0 || problems.length > 0
    this.#reportProblems('Service', name, isOurs ? problems : undefined, servedAt)
    return this.#replacePorts(name, ports)
  }

  /** Returns whether the slice changed endpoints (F-025). */
  setSlice(slice: EndpointSlice): boolean {
    const name = objectName(slice)
    if (!this.#isOurs(slice) || slice.serviceName === undefined) {
      this.#reportProblems('EndpointSlice', name, undefined)
      return this.#markChanged(this.#slices.remove(name))
    }
    const content = readSlice(slice, this.#family)
    // The Service and its slices share one text.
    const written = objectName({ namespace: slice.namespace, name: slice.serviceName })
    const service = this.#portsOf.get(written)?.[0]?.service ?? written
    this.#reportProblems('EndpointSlice', name, content.problems)
    return this.#markChanged(this.#slices.set(name, service, content))
  }

  /** Returns whether a service port changed, or an endpoint. */
  remove(kind: FamilyKind, key: ObjectKey): boolean {
    const name = objectName(key)
    this.#reportProblems(kind, name, undefined)
    return kind === 'Service' ? this.#replacePorts(name, []) : this.#markChanged(this.#slices.remove(name))
  }

  /** As `ServiceCidrs.networks`. */
  get serviceCidrs(): readonly Cidr[] | undefined {
    return this.#serviceCidrs.networks(this.#family)
  }

  get hasDirty(): boolean {
    return this.#dirty.serviceCount > 0
  }

  /** Every service port became dirty by one change, as by `markAll`, and not all have been taken since. */
  get areAllDirty(): boolean {
    return this.#dirty.areAll
  }

  /** Whether the service port is among those that `take` will return. */
  isDirty(key: ServicePortKey): boolean {
    return this.#dirty.has(key)
  }

  /** Service ports that become dirty from now on are of this generation or a later one. Each `take` ends one. */
  get dirtyGeneration(): number {
    return this.#dirty.generation
  }

  /** Whether a port of the Service, `namespace/name`, has been dirty since this generation or an earlier one. undefined: a port of any. */
  isDirtySince(service: string | undefined, generation: number): boolean {
    return this.#dirty.hasSince(service, generation)
  }

  /**
   * The service ports that changed since the last call. `share`: returns a part of them, in which Services take turns (`DirtyPorts`); the
   * others wait for the next call. Absent: all.
   */
  take(share?: Share): ReadonlySet<ServicePortKey> {
    return share === undefined ? this.#dirty.takeAll() : this.#dirty.takeShare(share)
  }

  /** Makes every service port dirty, after a change that may concern them all, such as the node's zone. */
  markAll(): void {
    this.mark(this.#ports.keys())
    this.#dirty.noteAll()
  }

  /** Makes those of these service ports dirty that exist. */
  mark(keys: Iterable<ServicePortKey>): void {
    for (const key of keys) {
      const port = this.#ports.get(key)
      if (port !== undefined) this.#markPort(port, this.#slices.endpointsPerPort(port.service))
    }
  }

  /** `endpoints`: their number, or the former one if it was greater. */
  #markPort(port: ServicePort, endpoints: number): void {
    const { externalIPs, loadBalancerIPs } = port
    this.#dirty.add(port.key, externalIPs.length + loadBalancerIPs.length + endpoints)
  }

  /** The service port is dirty no more: a pass has taken its present state without `take`. */
  unmark(key: ServicePortKey): void {
    this.#dirty.discard(key)
  }

  /** The Service of the EndpointSlice, both as `namespace/name`; undefined: the slice is unknown. */
  serviceOf(slice: string): string | undefined {
    return this.#slices.owner(slice)
  }

  /** undefined: the service port does not exist. */
  servicePort(key: ServicePortKey): ServicePort | undefined {
    return this.#ports.get(key)
  }

  servicePorts(): Iterable<ServicePort> {
    return this.#ports.values()
  }

  servicePortsOf(service: string): readonly ServicePort[] {
    return this.#portsOf.get(service) ?? []
  }

  withNodePort(protocol: ServiceProtocol, nodePort: number): readonly ServicePort[] {
    return this.#portsWith(this.#index.withNodePort(protocol, nodePort))
  }

  withHealthCheckPort(port: number): readonly ServicePort[] {
    return this.#portsWith(this.#index.withHealthCheckPort(port))
  }

  healthCheckOwner(port: number): Seniority | undefined {
    return this.#healthChecks.ownerOf(port)
  }

  /** The service port with its endpoints (`endpoints`). undefined: it does not exist. */
  withEndpoints(key: ServicePortKey): PortWithEndpoints | undefined {
    const port = this.#ports.get(key)
    return port && { port, endpoints: this.endpoints(port) }
  }

  /** `namespace/name:port`, as kube-proxy writes it; undefined: the service port does not exist. */
  portName(key: ServicePortKey): string | undefined {
    const port = this.#ports.get(key)
    return port && servicePortName(port)
  }

  /** The endpoints of all slices, without duplicates, in bytewise order of `address:port` (F-031). */
  endpoints(port: ServicePort): readonly Endpoint[] {
    return this.#slices.endpoints(port.service, port.portId)
  }

  get servicePortCount(): number {
    return this.#ports.size
  }

  /** Number of endpoints in all slices, including those of unknown Services. An endpoint in several slices counts once per slice. */
  get endpointCount(): number {
    return this.#slices.endpointCount
  }

  /**
   * Health checks of this node by `namespace/name`. Returns the same map until a check changes. NB: every call must pass the same
   * `nodeName`.
   */
  healthChecks(nodeName: string): ReadonlyMap<string, HealthCheck> {
    return this.#healthChecks.current(nodeName)
  }

  #reportProblems(
    kind: FamilyKind,
    name: string,
    problems: readonly string[] | undefined,
    servedAt?: string,
  ): void {
    const isReported = problems !== undefined && (servedAt !== undefined || problems.length > 0)
    if (!isReported && this.#reported.size === 0) return
    const object = `${kind} ${name}`
    if (isReported) this.#reported.set(object, { kind, name, problems, servedAt })
    else if (!this.#reported.delete(object)) return
    this.#report?.({ kind, name }, problems, servedAt)
  }

  /** Returns whether a service port changed. */
  #replacePorts(service: string, ports: readonly ServicePort[]): boolean {
    if (ports.length === 0 && this.#portsOf.size === 0) return false
    const before = this.#portsOf.get(service)
    const changes: PortChange[] = []
    for (const port of ports) {
      const former = this.#ports.get(port.key)
      if (former === undefined || !equalServicePorts(former, port))
        changes.push({ key: port.key, before: former, after: port })
      this.#ports.set(port.key, port)
    }
    const keys = before && new Set(ports.map(({ key }) => key))
    for (const port of before ?? []) {
      if (keys?.has(port.key) === true) continue
      this.#ports.delete(port.key)
      changes.push({ key: port.key, before: port, after: undefined })
    }
    this.#noteChanges(changes)
    if (ports.length > 0) this.#portsOf.set(service, ports)
    else if (before !== undefined) this.#portsOf.delete(service)
    for (const number of this.#healthChecks.setService(service, ports))
      this.mark(this.#index.withHealthCheckPort(number))
    return changes.length > 0
  }

  /** Makes the service ports dirty, and those whose external frontends may belong to their node ports (docs/adr/0007). */
  #noteChanges(changes: readonly PortChange[]): void {
    for (const { key, before, after } of changes) {
      if (before !== undefined) this.#index.remove(before)
      if (after !== undefined) this.#index.add(after)
      for (const port of [before, after]) {
        if (port === undefined) continue
        this.#markPort(port, this.#slices.endpointsPerPort(port.service))
        this.mark(this.#index.externalAtNodePorts(port))
      }
      if (before !== undefined) this.#dirty.noteGiven(key, lostBy(before, after))
    }
    for (const { key, before, after } of changes)
      if (after !== undefined) this.#dirty.noteTaken(key, lostBy(after, before))
  }

  #portsWith(keys: ReadonlySet<ServicePortKey>): readonly ServicePort[] {
    if (keys.size === 0) return []
    return Array.from(keys, (key) => this.#ports.get(key)).filter((port) => port !== undefined)
  }

  #isOurs(slice: EndpointSlice): boolean {
    const family = slice.addressType === 'IPv4' ? 'ipv4' : 'ipv6'
    if (slice.addressType === 'FQDN' || family !== this.#family) return false
    return !(readLabels.headless in slice.labels)
  }

  /** Returns whether there are changes. */
  #markChanged(changes: readonly ChangedPorts[]): boolean {
    for (const { service, portIds, endpoints } of changes) {
      this.#healthChecks.markChanged(service)
      for (const portId of portIds) {
        // A port of an unknown Service needs no work yet. The Service makes it dirty when it arrives.
        const port = this.#ports.get(servicePortKey(service, portId))
        if (port !== undefined) this.#markPort(port, endpoints)
      }
    }
    return changes.length > 0
  }
}

/** The frontends of `port` that `other` does not have. */
function* lostBy(port: ServicePort, other: ServicePort | undefined): Iterable<string> {
  const kept = frontendTexts(other)
  for (const text of frontendTexts(port)) if (!kept.has(text)) yield text
}
