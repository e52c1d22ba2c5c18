import type { IpAddress, IpFamily } from '../../address.js'
import { logFamily } from '../../engine/index.js'
import type { StateReporter } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Route } from '../../routing/index.js'

/**
 * Reports the cluster IPs of one family that an interface of this machine has. Another program added them, to listen on them itself, as
 * NodeLocal DNSCache does. One address and port has one listener: the program or the relay comes first, and the other gets EADDRINUSE.
 */
export class SharedAddresses {
  readonly #family: IpFamily
  readonly #warnings: StateReporter
  /** `namespace/name` of the Service of each cluster IP, by service port. */
  readonly #services = new Map<IpAddress, Map<ServicePortKey, string>>()
  readonly #clusterIPs = new Map<ServicePortKey, IpAddress>()
  #reported: readonly IpAddress[] = []

  constructor(family: IpFamily, warnings: StateReporter) {
    this.#family = family
    this.#warnings = warnings
  }

  /** Takes in the route of a service port; undefined: it was deleted. */
  note(key: ServicePortKey, decided: Pick<Route, 'service' | 'clusterIP'> | undefined): void {
    const former = this.#clusterIPs.get(key)
    if (former !== undefined) this.#forget(key, former)
    const { service = '', clusterIP } = decided ?? {}
    if (clusterIP === undefined) return
    this.#clusterIPs.set(key, clusterIP)
    const services = this.#services.get(clusterIP) ?? new Map<ServicePortKey, string>()
    this.#services.set(clusterIP, services.set(key, service))
  }

  /** Reports the present state. `machine`: the addresses of the interfaces. */
  report(machine: readonly IpAddress[]): void {
    const shared = machine.filter((address) => this.#services.has(address))
    for (const address of this.#reported)
      if (!shared.includes(address)) this.#warnings.report(problemOf(address), undefined)
    for (const address of shared) {
      const [service = ''] = this.#services.get(address)?.values() ?? []
      const text =
        `${service}: an interface of this node has its cluster IP ${address}, and userspace mode listens there; ` +
        'a program that wants to listen too, such as NodeLocal DNSCache, gets EADDRINUSE, or keeps the relay out if it came first: ' +
        'give the program an address of its own (-localip 169.254.20.10), and the kubelet the same one (clusterDNS)'
      this.#warnings.report(problemOf(address), {
        text,
        fields: { service, address, ipFamily: logFamily(this.#family) },
      })
    }
    this.#reported = shared
  }

  #forget(key: ServicePortKey, clusterIP: IpAddress): void {
    this.#clusterIPs.delete(key)
    const services = this.#services.get(clusterIP)
    services?.delete(key)
    if (services?.size === 0) this.#services.delete(clusterIP)
  }
}

function problemOf(address: IpAddress): string {
  return `interface ${address}`
}
