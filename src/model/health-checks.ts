// Which Services have a health check, and how many local addresses stand behind each (F-018, F-093).
import type { Endpoint } from './endpoint.js'
import type { ServicePort } from './service-port.js'

/** What a load balancer may ask about one Service. */
export interface HealthCheck {
  readonly namespace: string
  readonly name: string
  /** healthCheckNodePort. */
  readonly port: number
  /** Distinct addresses of ready endpoints on this node, over all ports; those that terminate do not count. */
  readonly localEndpoints: number
}

/** Counts again only what changed since it was last asked. */
export class HealthChecks {
  readonly #endpointsOf: (service: string) => Iterable<Endpoint>
  readonly #portOf = new Map<string, number>()
  readonly #dirty = new Set<string>()
  #checks: ReadonlyMap<string, HealthCheck> = new Map()

  /** `endpointsOf`: every endpoint of a Service (`namespace/name`), of all ports. */
  constructor(endpointsOf: (service: string) => Iterable<Endpoint>) {
    this.#endpointsOf = endpointsOf
  }

  /** The Service's ports as they are now; none: it is gone. */
  setService(service: string, ports: readonly ServicePort[]): void {
    const port = ports[0]?.healthCheckNodePort ?? 0
    if (port === 0 && this.#portOf.size === 0) return
    if (port === (this.#portOf.get(service) ?? 0)) return
    if (port === 0) this.#portOf.delete(service)
    else this.#portOf.set(service, port)
    this.#dirty.add(service)
  }

  /** The Service has other endpoints. */
  markChanged(service: string): void {
    if (this.#portOf.size > 0 && this.#portOf.has(service)) this.#dirty.add(service)
  }

  /** By `namespace/name`. The same map as before as long as nothing changed. */
  current(nodeName: string): ReadonlyMap<string, HealthCheck> {
    if (this.#dirty.size === 0) return this.#checks
    const checks = new Map(this.#checks)
    for (const service of this.#dirty) {
      const port = this.#portOf.get(service)
      const [namespace = '', name = ''] = service.split('/')
      if (port === undefined) checks.delete(service)
      else checks.set(service, { namespace, name, port, localEndpoints: this.#count(service, nodeName) })
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
