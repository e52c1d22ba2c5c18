import type { Cidr, IpAddress, IpFamily } from '../address.js'
import type { Clock } from '../clock.js'
import type { Links, Routes } from '../kernel/index.js'
import type { Log, StateReporter } from '../log.js'
import type { FamilyMetrics } from '../metrics/index.js'
import type { NodeFacts } from '../node/index.js'
import type { Config } from '../config/index.js'

/** The agent's parts that the loop of one family and the layer of its mode use. */
export interface FamilyContext {
  readonly family: IpFamily
  readonly config: TrafficConfig
  /** Time between two full comparisons, and between two repetitions of the work after a sync. */
  readonly syncPeriodMs: number
  readonly links: Links
  readonly routes: Routes
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly clock: Clock
  /**
   * The time by which looks at the kernel come due that find changes by other programs; retries come by `clock`. Default: `clock`. In a
   * plan it stands still: a look would find that the kernel lacks what the plan has handed over.
   */
  readonly lookClock?: Pick<Clock, 'now'>
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** Gets the requests of Services that the mode does not provide, of both families. */
  readonly warnings: StateReporter
}

/** The settings of a mode depend on these facts, beside the configuration. */
export interface FamilyFacts {
  readonly node: NodeFacts
  /** The machine's own addresses of this family; empty while the mode needs none. */
  readonly machine: readonly IpAddress[]
  /** The cluster has so many endpoints that kube-proxy writes no comments at the rules of Services. */
  readonly isLarge: boolean
  /** The networks of cluster IPs; undefined: not all are known yet. */
  readonly serviceCidrs: readonly Cidr[] | undefined
}

/** Time until a kernel that could not be read is asked again. */
export const readAgainMs = 1000

/** The part of the configuration that decides in every mode how packets reach Services. */
export type TrafficConfig = Pick<
  Config,
  | 'iptables'
  | 'featureGates'
  | 'detectLocalMode'
  | 'detectLocal'
  | 'clusterCIDR'
  | 'nodePortAddresses'
  | 'nodePortHolding'
>
