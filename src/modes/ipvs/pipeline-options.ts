import type { IpAddress, IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import type { VipBinding } from '../../config/index.js'
import type { HealthCheckListeners, ModeKernel, OpenTrackerOptions } from '../../engine/index.js'
import type { EventRecorder } from '../../event.js'
import type { KernelLook, XtFlavour } from '../../kernel/index.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { NodeFacts } from '../../node/index.js'
import type { IpvsPoliciesOptions } from './policies.js'
import type { IpvsKernel } from './prepare-kernel.js'
import type { ServiceScheduling } from './service-scheduling.js'

export interface IpvsPipelineOptions {
  readonly family: IpFamily
  /** The scheduling requests of Services. */
  readonly scheduling: ServiceScheduling
  /** Restores kernel settings of the mode that another program changed. */
  readonly keepSettings: () => Promise<void>
  readonly vipBinding: VipBinding
  readonly config: OpenTrackerOptions['config'] & IpvsPoliciesOptions['config']
  /** Longest time between two reconciles. */
  readonly syncPeriodMs: number
  /** Shortest time between two syncs. */
  readonly minSyncPeriodMs: number
  /** Whether virtual servers of this address must not be removed (excludeCIDRs). */
  readonly isExcluded: (address: IpAddress) => boolean
  /** Time for which an unwanted real server may keep its connections; 0: it is removed at once; Infinity: until they end. */
  readonly gracefulPeriodMs: number
  readonly kernel: IpvsKernel & IpvsPoliciesOptions['kernel'] & Pick<ModeKernel, 'sysctl' | 'activeTables'>
  readonly flavour: XtFlavour
  /** One look for all families that have a pipeline. */
  readonly look: KernelLook
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** Gets hints for the operator about the place of the VIPs. */
  readonly hints: StateReporter
  /** Gets the requests of Services that the mode does not provide, of both families. */
  readonly warnings: StateReporter
  readonly listeners: HealthCheckListeners
  readonly events: EventRecorder
  /** Further work after each sync. Absent: none. */
  readonly localhostNodePorts?: IpvsPoliciesOptions['localhostNodePorts']
}
