// Objects of tenants beside the Services of a benchmark, for the API server of the benchmarks. A user who owns one namespace may make them.
import type { Document, Kind } from '../../test/support/api-shapes.js'
import { realPort } from '../stage/place.js'
import { ipv4, vip } from '../state.js'

/** A tenant's name and numbers, with spaces: `wide 1000 100`. `plans` has them all. */
export type TenantText = string

/** The objects of a tenant, and how they change. */
interface Plan {
  /** Default: 1. */
  readonly services?: number
  /** Of each Service. The last one leads to `target`, the others to no server. Default: 1. */
  readonly ports?: number
  /** Of each Service, in one slice: the API allows 1,000. */
  readonly endpoints: number
  /** Default: TCP. */
  readonly protocol?: 'UDP'
  /** Default: the port of the server that answers. */
  readonly target?: number
  /** More of Service number `service`. */
  readonly spec?: (service: number) => Document
  /** The numbers of the endpoints after a change, from 1 on. Default: one of them is new. */
  readonly changed?: (change: number) => readonly number[]
}

/** The port of the Service `direct`: no server of a benchmark has it. */
export const directTarget = 8081

const plans: Readonly<Record<string, (first: number, second: number) => Plan>> = {
  /** PORTS ENDPOINTS */
  wide: (ports, endpoints) => ({ ports, endpoints }),
  /** IPS ENDPOINTS */
  external: (count, endpoints) => ({
    endpoints,
    spec: () => ({ externalIPs: numbers(count).map((i) => vip(vipNumber('external') + 1 + i)) }),
  }),
  /** SERVICES ENDPOINTS */
  many: (services, endpoints) => ({ services, endpoints }),
  /** SERVICES, each with session affinity for another time */
  timeouts: (services) => ({ services, endpoints: 2, spec: (service) => affinityFor(1 + service) }),
  /** With session affinity over UDP, where the source of a datagram is free to choose. */
  clients: () => ({ endpoints: 2, protocol: 'UDP', spec: () => affinityFor(defaultSeconds) }),
  /** With session affinity. A change leaves one endpoint, another one each time. */
  sticky: () => ({
    endpoints: 4,
    spec: () => affinityFor(defaultSeconds),
    changed: (change) => [change % 4],
  }),
  /** ENDPOINTS. A change adds one, or takes it away. */
  flapping: (endpoints) => ({ endpoints, changed: (change) => numbers(endpoints + (change % 2)) }),
  /** A Service for connections without the server of a benchmark. */
  direct: () => ({ endpoints: 2, target: directTarget }),
}

const names = Object.keys(plans)
const defaultSeconds = 10_800
const firstPort = 1000
/** Targets of the ports that lead to no server. */
const firstTarget = 20_000
/** Behind the Services of every benchmark; VIPs and endpoints of a tenant. */
const [firstVip, vipsEach] = [0x90000, 0x2000]
const [firstEndpoint, endpointsEach] = [0x0ac00000, 0x80000]
/** The number of the first endpoint that a change adds. */
const firstNew = 0x40000
type Event = readonly [Kind, Document]

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

function vipNumber(name: string): number {
  return firstVip + names.indexOf(name) * vipsEach
}

function affinityFor(timeoutSeconds: number): Document {
  return { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds } } }
}

/** A tenant's objects. Throws if no tenant has that name. */
export class Tenant {
  readonly #name: string
  readonly #plan: Plan

  constructor(text: TenantText) {
    const [name = '', first, second] = text.split(' ')
    const plan = plans[name]
    if (plan === undefined) throw new Error(`no tenant ${name}, only ${names.join(' ')}`)
    this.#name = name
    this.#plan = plan(Number(first), Number(second))
  }

  /** The address and the last port of its last Service. */
  get place(): { readonly address: string; readonly port: number } {
    const { services = 1, ports = 1 } = this.#plan
    return { address: vip(vipNumber(this.#name) + services - 1), port: firstPort + ports - 1 }
  }

  /** Its objects: each slice before its Service. */
  objects(): readonly Event[] {
    const { services = 1, endpoints } = this.#plan
    return numbers(services).flatMap((service) => [
      ['EndpointSlice', this.#slice(service, numbers(endpoints))],
      ['Service', this.#service(service)],
    ])
  }

  /** The addresses of the first Service's endpoints after change number `change`, from 1 on. */
  changedEndpoints(change: number): readonly string[] {
    return this.#changed(change).map((number) => this.#endpoint(0, number))
  }

  /** The object that change number `change` leaves, of the first Service. */
  changed(change: number): Event {
    return ['EndpointSlice', this.#slice(0, this.#changed(change))]
  }

  #changed(change: number): readonly number[] {
    const { endpoints, changed } = this.#plan
    if (changed !== undefined) return changed(change)
    return numbers(endpoints).map((i) => (i === change % endpoints ? firstNew + change : i))
  }

  #service(service: number): Document {
    const { spec } = this.#plan
    const address = vip(vipNumber(this.#name) + service)
    return {
      metadata: { namespace: 'default', name: `${this.#name}-${service}` },
      spec: {
        type: 'ClusterIP',
        clusterIP: address,
        clusterIPs: [address],
        ipFamilies: ['IPv4'],
        sessionAffinity: 'None',
        ports: this.#ports((i) => ({ port: firstPort + i, targetPort: { intVal: this.#target(i) } })),
        ...spec?.(service),
      },
    }
  }

  #slice(service: number, endpoints: readonly number[]): Document {
    const name = `${this.#name}-${service}`
    return {
      metadata: {
        namespace: 'default',
        name: `${name}-a`,
        labels: { 'kubernetes.io/service-name': name },
      },
      addressType: 'IPv4',
      ports: this.#ports((i) => ({ port: this.#target(i) })),
      endpoints: endpoints.map((number) => ({
        addresses: [this.#endpoint(service, number)],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: 'node-b',
      })),
    }
  }

  #endpoint(service: number, number: number): string {
    const { endpoints } = this.#plan
    const first = firstEndpoint + names.indexOf(this.#name) * endpointsEach
    return ipv4(first + 1 + service * endpoints + number)
  }

  #ports(portOf: (i: number) => Document): readonly Document[] {
    const { ports = 1, protocol = 'TCP' } = this.#plan
    return numbers(ports).map((i) => ({ name: `p${i}`, protocol, ...portOf(i) }))
  }

  #target(i: number): number {
    const { ports = 1, target = realPort } = this.#plan
    return i === ports - 1 ? target : firstTarget + i
  }
}
