// The Services that have a health check, with the number of local endpoint addresses of each (F-018, F-093).
import type { Endpoint } from './endpoint.js'
import type { ServicePort } from './service-port.js'

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

/** Recounts only the Services that changed since the last call of `current`. */
export class HealthChecks {
  readonly #endpointsOf: (service: string) => Iterable<Endpoint>
  readonly #portOf = new Map<string, Pick<HealthCheck, 'port' | 'createdSeconds'>>()
  readonly #dirty = new Set<string>()
  #checks: ReadonlyMap<string, HealthCheck> = new Map()

  /** `endpointsOf` returns all endpoints of a Service (`namespace/name`), over all ports. */
  constructor(endpointsOf: (service: string) => Iterable<Endpoint>) {
    this.#endpointsOf = endpointsOf
  }

  /** Sets the Service's ports. An empty list removes the Service. */
  setService(service: string, ports: readonly ServicePort[]): void {
    const { healthCheckNodePort: port = 0, createdSeconds } = ports[0] ?? {}
    if (port === 0 && this.#portOf.size === 0) return
    const former = this.#portOf.get(service)
    if (port === (former?.port ?? 0) && createdSeconds === former?.createdSeconds) return
    if (port === 0) this.#portOf.delete(service)
    else this.#portOf.set(service, createdSeconds === undefined ? { port } : { port, createdSeconds })
    this.#dirty.add(service)
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

  #count(service: string, nodeName: string): number {
    const addresses = new Set<string>()
    for (const endpoint of this.#endpointsOf(service)) {
      if (endpoint.isReady && endpoint.nodeName === nodeName) addresses.add(endpoint.address)
    }
    return addresses.size
  }
}
