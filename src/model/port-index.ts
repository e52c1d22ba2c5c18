// Finds service ports by the numbers of their node ports, health check ports and external frontends.
import type { ServiceProtocol } from '../source/index.js'
import type { ServicePort, ServicePortKey } from './service-port.js'

const none: ReadonlySet<ServicePortKey> = new Set()
const protocols: readonly ServiceProtocol[] = ['TCP', 'UDP', 'SCTP']

/** The service ports of one IP family by their numbers. The cost of a change does not depend on the number of other service ports. */
export class PortIndex {
  readonly #nodePorts = new Map<number, Set<ServicePortKey>>()
  readonly #healthChecks = new Map<number, Set<ServicePortKey>>()
  /** Service ports with external IPs or load-balancer IPs, by their ports. */
  readonly #external = new Map<number, Set<ServicePortKey>>()

  /** Takes the service port in. */
  add(port: ServicePort): void {
    for (const [sets, number] of this.#placesOf(port)) {
      const set = sets.get(number)
      if (set === undefined) sets.set(number, new Set([port.key]))
      else set.add(port.key)
    }
  }

  /** Takes the service port out, as it was given to `add`. */
  remove(port: ServicePort): void {
    for (const [sets, number] of this.#placesOf(port)) {
      const set = sets.get(number)
      set?.delete(port.key)
      if (set?.size === 0) sets.delete(number)
    }
  }

  /** The service ports with this node port. Normally one at most. */
  withNodePort(protocol: ServiceProtocol, number: number): ReadonlySet<ServicePortKey> {
    return this.#nodePorts.get(numberOf(protocol, number)) ?? none
  }

  /** The ports of the Services with this health check port. Normally those of one Service. */
  withHealthCheckPort(number: number): ReadonlySet<ServicePortKey> {
    return this.#healthChecks.get(numberOf('TCP', number)) ?? none
  }

  /** The service ports with an external frontend that has the number of this one's node port or health check port. */
  *externalAtNodePorts({ protocol, nodePort, healthCheckNodePort }: ServicePort): Iterable<ServicePortKey> {
    if (nodePort !== 0) yield* this.#external.get(numberOf(protocol, nodePort)) ?? none
    if (healthCheckNodePort !== 0) yield* this.#external.get(numberOf('TCP', healthCheckNodePort)) ?? none
  }

  *#placesOf(port: ServicePort): Iterable<readonly [Map<number, Set<ServicePortKey>>, number]> {
    const { protocol, nodePort, healthCheckNodePort } = port
    if (nodePort !== 0) yield [this.#nodePorts, numberOf(protocol, nodePort)]
    if (healthCheckNodePort !== 0) yield [this.#healthChecks, numberOf('TCP', healthCheckNodePort)]
    const isExternal = port.externalIPs.length > 0 || port.loadBalancerIPs.length > 0
    if (isExternal) yield [this.#external, numberOf(protocol, port.port)]
  }
}

/** Protocol and port in one number. */
function numberOf(protocol: ServiceProtocol, port: number): number {
  return protocols.indexOf(protocol) * 65_536 + port
}
