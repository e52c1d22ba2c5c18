// Pages of Services with their endpoints, for a reader that searches.
import { formatEndpoint, type IpAddress, parseIpAddress } from '../address.js'
import type { PipelineView } from '../engine/index.js'
import type { Endpoint, ServicePort } from '../model/index.js'
import { addressesOf } from '../routing/index.js'
import { type Inspected, familyName } from './inspected.js'

/** One page of the Services that match. */
export interface ServicePage {
  /** From 1; at most `pageCount`. */
  readonly page: number
  readonly pageCount: number
  /** Number of Services that match. */
  readonly matchCount: number
  readonly services: readonly ServiceEntry[]
}

export interface ServiceEntry {
  /** `namespace/name`. */
  readonly service: string
  readonly ports: readonly PortEntry[]
}

/** One port of a Service in one family. */
export interface PortEntry {
  readonly family: 'IPv4' | 'IPv6'
  /** Empty: the port has no name. */
  readonly name: string
  readonly protocol: string
  /** `address:port`: the cluster IP, if there is one, first, then external IPs and load-balancer IPs. */
  readonly addresses: readonly string[]
  /** 0: none. */
  readonly nodePort: number
  readonly readyCount: number
  readonly endpointCount: number
  /** The first endpoints. */
  readonly endpoints: readonly EndpointEntry[]
}

export interface EndpointEntry {
  /** `address:port`. */
  readonly address: string
  readonly state: 'ready' | 'serving' | 'terminating' | 'not ready'
  /** Empty: the EndpointSlice names no node. */
  readonly node: string
}

const servicesPerPage = 50
const shownEndpoints = 50
/** Services that a search looks at before it lets other work run: about 1 ms. */
const servicesAtOnce = 250
/** A list of all names costs about 10 ms at 10,000 Services. It is made again when the number of service ports has changed. */
const namesKeptMs = 5000

/** Finds Services by name, VIP or endpoint address. All readers share one list of names, which is at most 5 s old. */
export class ServiceFinder {
  readonly #inspected: Pick<Inspected, 'synchronizer' | 'clock'>
  #names: { readonly madeMs: number; readonly count: number; readonly list: readonly string[] } | undefined

  constructor(inspected: Pick<Inspected, 'synchronizer' | 'clock'>) {
    this.#inspected = inspected
  }

  /**
   * `query`: a part of `namespace/name`, the begin of a VIP, or the address of a VIP or an endpoint, also with its port; empty: all.
   * `page`: from 1.
   */
  async find(query: string, page: number): Promise<ServicePage> {
    const matches = query === '' ? this.#allNames() : await this.#search(query.toLowerCase())
    const pageCount = Math.max(1, Math.ceil(matches.length / servicesPerPage))
    const shown = Math.min(Math.max(page, 1), pageCount)
    const first = (shown - 1) * servicesPerPage
    return {
      page: shown,
      pageCount,
      matchCount: matches.length,
      services: matches.slice(first, first + servicesPerPage).map((service) => this.#entry(service)),
    }
  }

  /** The names of all Services in order. */
  #allNames(): readonly string[] {
    const { synchronizer, clock } = this.#inspected
    const nowMs = clock.unixMs()
    const count = synchronizer.views.reduce((sum, { services }) => sum + services.servicePortCount, 0)
    const kept = this.#names
    if (kept?.count === count && Math.abs(nowMs - kept.madeMs) < namesKeptMs) return kept.list
    const names = new Set<string>()
    for (const { services } of synchronizer.views)
      for (const { service } of services.servicePorts()) names.add(service)
    const list = [...names].toSorted()
    this.#names = { madeMs: nowMs, count, list }
    return list
  }

  async #search(query: string): Promise<readonly string[]> {
    const wanted = wantedAddress(query)
    const matches: string[] = []
    for (const [index, name] of this.#allNames().entries()) {
      if (index % servicesAtOnce === servicesAtOnce - 1) await this.#inspected.clock.pause()
      if (name.includes(query) || this.#hasAddress(name, query, wanted)) matches.push(name)
    }
    return matches
  }

  #hasAddress(name: string, query: string, wanted: WantedAddress | undefined): boolean {
    const fits = (address: IpAddress, port: number): boolean =>
      wanted !== undefined && address === wanted.address && (wanted.port ?? port) === port
    return this.#inspected.synchronizer.views.some(({ services }) =>
      services
        .servicePortsOf(name)
        .some(
          (port) =>
            vips(port).some((vip) => vip.startsWith(query) || fits(vip, port.port)) ||
            (wanted !== undefined &&
              services.endpoints(port).some((endpoint) => fits(endpoint.address, endpoint.port))),
        ),
    )
  }

  #entry(service: string): ServiceEntry {
    const { views } = this.#inspected.synchronizer
    const ports = views.flatMap((view) =>
      view.services.servicePortsOf(service).map((port) => portEntry(view, port)),
    )
    return { service, ports }
  }
}

/** An address of a search; `port` undefined: with any port. */
interface WantedAddress {
  readonly address: IpAddress
  readonly port: number | undefined
}

/** The text as an address, or as an address and port as the page shows them. */
function wantedAddress(query: string): WantedAddress | undefined {
  const { bracketed, bare, port } =
    /^(?:\[(?<bracketed>[^\]]*)\]|(?<bare>[^:]*)):(?<port>\d{1,5})$/u.exec(query)?.groups ?? {}
  const address = parseIpAddress(bracketed ?? bare ?? query)
  return address && { address, port: port === undefined ? undefined : Number(port) }
}

function vips(port: ServicePort): readonly IpAddress[] {
  return [...addressesOf(port)]
}

function portEntry({ services, health }: PipelineView, port: ServicePort): PortEntry {
  const endpoints = services.endpoints(port)
  return {
    family: familyName(health.family),
    name: port.portName,
    protocol: port.protocol,
    addresses: vips(port).map((vip) => formatEndpoint(vip, port.port)),
    nodePort: port.nodePort,
    readyCount: endpoints.filter(({ isReady }) => isReady).length,
    endpointCount: endpoints.length,
    endpoints: endpoints.slice(0, shownEndpoints).map(endpointEntry),
  }
}

function endpointEntry(endpoint: Endpoint): EndpointEntry {
  const { address, port, nodeName = '' } = endpoint
  return { address: formatEndpoint(address, port), state: stateOf(endpoint), node: nodeName }
}

function stateOf({ isReady, isServing, isTerminating }: Endpoint): EndpointEntry['state'] {
  if (isTerminating) return 'terminating'
  if (isReady) return 'ready'
  return isServing ? 'serving' : 'not ready'
}
