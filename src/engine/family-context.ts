import type { IpFamily } from '../address.js'
import type { Clock } from '../clock.js'
import type { Conntrack, Links, Ports, Routes } from '../kernel/index.js'
import type { EventRecorder } from '../event.js'
import type { Log, StateReporter } from '../log.js'
import type { FamilyMetrics } from '../metrics/index.js'
import type { NodeFacts } from '../node/index.js'
import type { HealthCheckListeners } from './mode.js'
import type { TrafficConfig } from './traffic-config.js'

/** The options of every pipeline that writes one family's rules. */
export interface RulePipelineOptions {
  readonly family: IpFamily
  readonly config: TrafficConfig
  /** Time between two full comparisons, and between two repetitions of the work after a sync. */
  readonly syncPeriodMs: number
  readonly conntrack: Conntrack
  readonly links: Links
  readonly routes: Routes
  readonly ports: Ports
  readonly events: EventRecorder
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** Gets the requests of Services that the mode does not provide, of both families. */
  readonly warnings: StateReporter
  readonly listeners: HealthCheckListeners
}

/** Time until a kernel that could not be read is asked again. */
export const readAgainMs = 1000
