// The figures that the kernel, or the relay, has on the traffic of Services.
import type { Backend, Frontend, Route } from '../routing/index.js'
import type { IpAddress } from '../address.js'
import type { Protocol } from '../kernel/index.js'

/** The figures on one frontend, endpoint or service port. An absent one does not exist in this mode. */
export interface TrafficCounters {
  /** All connections since the kernel has its object for them. */
  readonly connections?: number
  /** Present connections: of TCP those in state ESTABLISHED, of other protocols all. */
  readonly activeConnections?: number
  /** Present connections of TCP in another state. */
  readonly inactiveConnections?: number
  /** From clients. */
  readonly packetsIn?: number
  /** To clients. */
  readonly packetsOut?: number
  readonly bytesIn?: number
  readonly bytesOut?: number
}

/** The figures on one service port. */
export interface PortCounters {
  /** The sum of all frontends. */
  readonly total: TrafficCounters
  /** Quick if they are asked for in the order of the endpoints. */
  readonly endpoint: (endpoint: Pick<Backend, 'address' | 'port'>) => TrafficCounters
  readonly frontend: (frontend: Frontend) => TrafficCounters
}

/** One reading of all figures of a family. undefined: it has none on the route. */
export type CounterReading = (decided: Route) => PortCounters | undefined

const names = [
  'connections',
  'activeConnections',
  'inactiveConnections',
  'packetsIn',
  'packetsOut',
  'bytesIn',
  'bytesOut',
] as const

/** A figure that one of the two lacks is that of the other. */
export function addCounters(a: TrafficCounters, b: TrafficCounters): TrafficCounters {
  const sum: { -readonly [Name in keyof TrafficCounters]: TrafficCounters[Name] } = { ...a }
  for (const name of names) {
    const count = b[name]
    if (count !== undefined) sum[name] = (sum[name] ?? 0) + count
  }
  return sum
}

/** Adds to the figures of a key; an absent key has none. */
export function countAt(counters: Map<string, TrafficCounters>, key: string, counted: TrafficCounters): void {
  counters.set(key, addCounters(counters.get(key) ?? {}, counted))
}

/** A connection of a client to a frontend, as the mode knows it. */
export interface ServiceFlow {
  readonly protocol: Protocol
  readonly source: IpAddress
  readonly sourcePort: number
  readonly destination: IpAddress
  readonly destinationPort: number
  readonly endpoint: { readonly address: IpAddress; readonly port: number }
  /** As the kernel's tools spell it. undefined: the protocol is not TCP. */
  readonly state: string | undefined
  /** It ends after so many seconds without a packet. undefined: after no time. */
  readonly timeoutSeconds: number | undefined
}

/** Connections that are made while the reader takes them. */
export type FlowSource = Iterable<ServiceFlow> | AsyncIterable<ServiceFlow>
