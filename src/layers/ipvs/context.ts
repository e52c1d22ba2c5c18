import type { IpAddress } from '../../address.js'
import type { IpvsConfig, VipBinding } from '../../config/index.js'
import type { FamilyContext, FamilyParts, ModeKernel, TrafficConfig } from '../../engine/index.js'
import type { KernelLook, XtFlavour } from '../../kernel/index.js'
import type { StateReporter } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'

/** The service ports that ask for a scheduler. */
interface SchedulingRequests {
  /**
   * Asks the kernel again for the schedulers that it lacked. Resolves with the service ports whose scheduler became available. Never rejects
   * with a KernelError.
   */
  recheck(): Promise<readonly ServicePortKey[]>
  /** The service port was removed. */
  forget(key: ServicePortKey): void
}

/** Virtual servers and VIPs in the kernel. Both families share them; calls queue inside. */
export type IpvsKernel = Pick<ModeKernel, 'ipvs' | 'routes' | 'links'>

/** The agent's parts that the parts of this layer use, for one family. */
export interface IpvsContext extends FamilyContext, FamilyParts {
  readonly config: TrafficConfig & { readonly ipvs: Pick<IpvsConfig, 'markMask' | 'gracefulPeriodMs'> }
  readonly kernel: ModeKernel
  /** Where the rules are written. */
  readonly flavour: XtFlavour
  readonly vipBinding: VipBinding
  /** Shortest time between two syncs. */
  readonly minSyncPeriodMs: number
  /** The scheduling requests of Services. */
  readonly scheduling: SchedulingRequests
  /** Restores kernel settings of the mode that another program changed. */
  readonly keepSettings: () => Promise<void>
  /** Whether virtual servers of this address must not be removed (excludeCIDRs). */
  readonly isExcluded: (address: IpAddress) => boolean
  /** One look for all families that have a layer. */
  readonly look: KernelLook
  /** Gets hints for the operator about the place of the VIPs. */
  readonly hints: StateReporter
}
