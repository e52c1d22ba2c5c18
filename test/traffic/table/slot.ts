// Where a case of the table lives: virtual addresses, node ports and names that no other case has, and the objects on them.
import type {
  EndpointSlice,
  NodeObject,
  Service,
  ServicePortSpec,
  SliceEndpoint,
} from '../../../src/source/index.js'
import { endpoint, node, port, service, slice } from '../../support/objects.js'
import type { Expectation, FlowCheck, Seen, Source, Target, TrafficCase } from './case.js'
import {
  addresses,
  type Family,
  families,
  nodeName,
  nodeOf,
  type Pair,
  type Place,
  podNetwork,
  type Protocol,
  server,
  zone,
} from './world.js'

export type Frontend = 'clusterIP' | 'nodePort' | 'loadBalancer' | 'externalIP'
export const frontends: readonly Frontend[] = ['clusterIP', 'nodePort', 'loadBalancer', 'externalIP']
export const externalFrontends: readonly Frontend[] = ['nodePort', 'loadBalancer', 'externalIP']

/** A server as an endpoint; a place alone: ready, on its node. */
export type EndpointSpec = Place | ({ readonly place: Place } & Parameters<typeof endpoint>[1])

/** Port of every service, unless a case says otherwise, and that of its servers. */
export const servicePort = 80
export const targetPort = 8080

/** Addresses of one kind for one case: four, so that a case may have several Services. */
const perSlot = 4
const networks: Readonly<Record<Exclude<Frontend, 'nodePort'>, number>> = {
  clusterIP: 96,
  loadBalancer: 97,
  externalIP: 98,
}
const firstNodePort = 30_000

interface Flow {
  readonly family: Family
  readonly protocol: Protocol
}

/** The place of one case. `which` counts the Services of the case from 0. */
export class Slot {
  readonly index: number
  readonly protocols: readonly Protocol[]

  constructor(index: number, protocols: readonly Protocol[]) {
    this.index = index
    this.protocols = protocols
  }

  /** Every family with every protocol of the table. */
  get flows(): readonly Flow[] {
    return families.flatMap((family) => this.protocols.map((protocol) => ({ family, protocol })))
  }

  name(which = 0): string {
    return `case-${this.index}-${which}`
  }

  address(kind: Exclude<Frontend, 'nodePort'>, which = 0): Pair {
    const number = this.index * perSlot + which
    const network = networks[kind]
    return {
      IPv4: `10.${network}.${number >> 8}.${number & 0xff}`,
      IPv6: `fd00:10:${network}::${number.toString(16)}`,
    }
  }

  nodePort(which = 0): number {
    return firstNodePort + this.index * perSlot + which
  }

  /** Where a client of this frontend sends to; node ports: to node-a's first address. */
  to(kind: Frontend, { family, protocol }: Flow, which = 0): Target {
    if (kind === 'nodePort') return { protocol, address: addresses.node[family], port: this.nodePort(which) }
    return { protocol, address: this.address(kind, which)[family], port: servicePort }
  }

  /** A dual-stack ClusterIP Service with one port for each protocol. */
  service(rest: Partial<Service> = {}, which = 0): Service {
    const { IPv4, IPv6 } = this.address('clusterIP', which)
    return service(this.name(which), IPv4, {
      clusterIPs: [IPv4, IPv6],
      ipFamilies: ['IPv4', 'IPv6'],
      ports: this.ports(),
      ...rest,
    })
  }

  /** The same with a node port, a load balancer's address and an external IP. */
  exposed(rest: Partial<Service> = {}, which = 0): Service {
    const loadBalancer = this.address('loadBalancer', which)
    return this.service(
      {
        type: 'LoadBalancer',
        ports: this.ports({ nodePort: this.nodePort(which) }),
        externalIPs: Object.values(this.address('externalIP', which)),
        loadBalancerIngress: families.map((family) => ({ ip: loadBalancer[family], ipMode: 'VIP' })),
        ...rest,
      },
      which,
    )
  }

  /** A port for each protocol, named after it. */
  ports(rest: Partial<ServicePortSpec> = {}): readonly ServicePortSpec[] {
    return this.protocols.map((protocol) =>
      port(servicePort, { name: protocol.toLowerCase(), protocol, ...rest }),
    )
  }

  /** A slice of each family. */
  slices(
    endpoints: readonly EndpointSpec[],
    rest: Partial<EndpointSlice> = {},
    which = 0,
  ): readonly EndpointSlice[] {
    return families.map((family) => this.slice(family, endpoints, rest, which))
  }

  slice(
    family: Family,
    endpoints: readonly EndpointSpec[],
    rest: Partial<EndpointSlice> = {},
    which = 0,
  ): EndpointSlice {
    const name = `${this.name(which)}-${family.toLowerCase()}`
    return slice(
      name,
      this.name(which),
      endpoints.map((spec) => endpointOf(spec, family)),
      {
        addressType: family,
        ports: this.protocols.map((protocol) => ({
          name: protocol.toLowerCase(),
          protocol,
          port: targetPort,
        })),
        ...rest,
      },
    )
  }

  /** One flow to each frontend in each family and protocol. */
  flowsTo(kinds: readonly Frontend[], from: Place, expect: FlowExpectation, which = 0): readonly FlowCheck[] {
    return kinds.flatMap((kind) =>
      this.flows.map((flow) => flowCheck(from, this.to(kind, flow, which), expected(expect, flow.family))),
    )
  }
}

/** An expectation whose servers are named by their places. */
export type FlowExpectation =
  'refused' | 'dropped' | { readonly by: readonly Place[]; readonly sees: Seen; readonly port?: number }

export function expected(expect: FlowExpectation, family: Family): Expectation {
  if (typeof expect === 'string') return { kind: expect }
  return {
    kind: 'answer',
    by: expect.by.map((place) => server(place, family, expect.port ?? targetPort)),
    sees: expect.sees,
  }
}

export function flowCheck(from: Place, to: Target, expect: Expectation, source?: Source): FlowCheck {
  return { kind: 'flow', from, to, expect, ...(source === undefined ? {} : { source }) }
}

function endpointOf(spec: EndpointSpec, family: Family): SliceEndpoint {
  const { place, ...rest } = typeof spec === 'string' ? { place: spec } : spec
  return endpoint(addresses[place][family], { nodeName: nodeOf(place), ...rest })
}

/** The Node object of node-a. */
export const nodeObject: NodeObject = {
  ...node(nodeName, { zone, ips: families.map((family) => addresses.node[family]) }),
  podCIDRs: families.map((family) => podNetwork[family]),
}

/** A case before it has its place. */
export type CaseAt = (slot: Slot) => TrafficCase

/** Gives each case a place of its own, counted from `first`. */
export function placed(
  cases: readonly CaseAt[],
  protocols: readonly Protocol[],
  first: number,
): readonly TrafficCase[] {
  return cases.map((at, index) => at(new Slot(first + index, protocols)))
}
