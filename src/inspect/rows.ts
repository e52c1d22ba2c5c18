// One row of the long lists: a service port, an endpoint or a frontend.
import type { TrafficCounters } from '../engine/index.js'
import type { EndpointChoice, Reason, Verdict } from '../routing/index.js'

/** The fate of new connections. `conflict`: another service port, the node itself or another machine has the frontend (docs/adr/0007, docs/adr/0028). */
export type FrontendVerdict = Verdict | 'conflict'

/** The head of each row: one port of one Service, in one family. */
export interface PortHead {
  /** `namespace/name`. */
  readonly service: string
  /** Blank: the port has no name. */
  readonly port: string
  readonly protocol: string
  readonly family: 'IPv4' | 'IPv6'
}

export interface ServiceRow extends PortHead {
  /** `10.96.0.10:80`. Absent: the Service has none. */
  readonly clusterIP?: string | undefined
  /** 0: none. */
  readonly nodePort: number
  /** External IPs and load-balancer IPs. */
  readonly externalIPs: readonly string[]
  /** Numbers of all endpoints, and of those that serve policy Cluster and policy Local. */
  readonly endpoints: { readonly all: number; readonly cluster: number; readonly local: number }
  /** The verdict on new connections to the cluster IP. Absent: there is none. */
  readonly internal?: FrontendVerdict | undefined
  /** The verdict on new connections from outside; `conflict` if all such frontends have one. Absent: there is no such frontend. */
  readonly external?: FrontendVerdict | undefined
  /** The frontends that others have, such as `tcp 203.0.113.1:80`. Absent: none. */
  readonly conflicts?: readonly string[] | undefined
  /** The sum of all frontends; absent: not asked for. */
  readonly counters?: TrafficCounters | undefined
  /** RFC 3339, UTC: since when its last change is in force. Absent: it is not, or that is not known. */
  readonly since?: string | undefined
}

export interface EndpointRow extends PortHead {
  /** `10.1.0.1:8080`. */
  readonly endpoint: string
  /** Blank: not known. */
  readonly node: string
  readonly conditions: { readonly ready: boolean; readonly serving: boolean; readonly terminating: boolean }
  /** Whether traffic of each policy uses the endpoint, and the rule of docs/traffic.md that decided. */
  readonly cluster: EndpointChoice
  readonly local: EndpointChoice
  /** Absent: not asked for. */
  readonly counters?: TrafficCounters | undefined
}

export interface RouteRow extends PortHead {
  /** `tcp 10.96.0.10:80`. */
  readonly frontend: string
  readonly verdict: FrontendVerdict
  readonly reasons: readonly Reason[]
  /** The endpoints that serve the frontend. */
  readonly backends: readonly string[]
  /** Absent: not asked for. */
  readonly counters?: TrafficCounters | undefined
  /**
   * The kernel objects that the mode desires for the service port, in the syntax of the mode's tools. Only for one Service. Absent if
   * others have all of its frontends.
   */
  readonly kernel?: readonly string[] | undefined
}
