// The Services that have a health check, with the number of local endpoint addresses of each (F-018, F-093).
import type { Endpoint } from './endpoint.js'
import { compareSeniority, type Seniority, type ServicePort } from './service-port.js'

/** The health check of one Service, for load balancers. */
export interface HealthCheck {
  readonly namespace: string
  readonly name: string
  /** healthCheckNodePort. */
  readonly port: number
  /** Number of distinct addresses of ready endpoints on this node, over all ports. Terminating endpoints do not count. */
  readonly localEndpoints: number
  /** Unix seconds of the Service's creation; absent: unknown. */
  readonly createdSeconds?: number | undefined
}

const noNumbers: readonly number[] = []

/** Recounts only the Services that changed since the last call of `current`. */
export class HealthChecks {
  readonly #endpointsOf: (service: string) => Iterable<Endpoint>
  readonly #portOf = new Map<string, Pick<HealthCheck, 'port' | 'createdSeconds'>>()
  /** The Services with each port; normally one. */
  readonly #servicesWith = new Map<number, Set<string>>()
  readonly #dirty = new Set<string>()
  #checks: ReadonlyMap<string, HealthCheck> = new Map()

  /** `endpointsOf` returns all endpoints of a Service (`namespace/name`), over all ports. */
  constructor(endpointsOf: (service: string) => Iterable<Endpoint>) {
    this.#endpointsOf = endpointsOf
  }

  /**
   * Sets the Service's ports. An empty list removes the Service. Returns the health check ports that may have another owner now; empty: no
   * health check changed.
   */
  setService(service: string, ports: readonly ServicePort[]): readonly number[] {
    const { healthCheckNodePort: port = 0, createdSeconds } = ports[0] ?? {}
    if (port === 0 && this.#portOf.size === 0) return noNumbers
    const former = this.#portOf.get(service)
    if (port === (former?.port ?? 0) && createdSeconds === former?.createdSeconds) return noNumbers
    if (former !== undefined) this.#release(service, former.port)
    if (port === 0) this.#portOf.delete(service)
    else this.#hold(service, createdSeconds === undefined ? { port } : { port, createdSeconds })
    this.#dirty.add(service)
    return [former?.port ?? 0, port].filter((number) => number !== 0)
  }

  /** The Service that owns the health check port: of several with it, the first by `compareSeniority`. undefined: none has it. */
  ownerOf(port: number): Seniority | undefined {
    let owner: Seniority | undefined
    for (const service of this.#servicesWith.get(port) ?? []) {
      const claimant = { service, createdSeconds: this.#portOf.get(service)?.createdSeconds }
      if (owner === undefined || compareSeniority(claimant, owner) < 0) owner = claimant
    }
    return owner
  }

  /** Marks the Service for a recount: its endpoints changed. */
  markChanged(service: string): void {
    if (this.#portOf.size > 0 && this.#portOf.has(service)) this.#dirty.add(service)
  }

  /** All health checks by `namespace/name`. Returns the same map until a check changes. */
  current(nodeName: string): ReadonlyMap<string, HealthCheck> {
    if (this.#dirty.size === 0) return this.#checks
    const checks = new Map(this.#checks)
    for (const service of this.#dirty) {
      const known = this.#portOf.get(service)
      const [namespace = '', name = ''] = service.split('/')
      if (known === undefined) checks.delete(service)
      else checks.set(service, { namespace, name, ...known, localEndpoints: this.#count(service, nodeName) })
    }
    this.#dirty.clear()
    this.#checks = checks
    return checks
  }

  #hold(service: string, check: Pick<HealthCheck, 'port' | 'createdSeconds'>): void {
    this.#portOf.set(service, check)
    const services = this.#servicesWith.get(check.port)
    if (services === undefined) this.#servicesWith.set(check.port, new Set([service]))
    else services.add(service)
  }

  #release(service: string, port: number): void {
    const services = this.#servicesWith.get(port)
    services?.delete(service)
    if (services?.size === 0) this.#servicesWith.delete(port)
  }

  #count(service: string, nodeName: string): number {
    const addresses = new Set<string>()
    for (const endpoint of this.#endpointsOf(service)) {
      if (endpoint.isReady && endpoint.nodeName === nodeName) addresses.add(endpoint.address)
    }
    return addresses.size
  }
}
