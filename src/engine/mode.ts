// A proxy mode as the agent sees it: what it needs of the kernel is in order, and pipelines can be opened.
import type { Cidr, IpAddress, IpFamily } from '../address.js'
import type { Config, ConfiguredMode, ProxyMode } from '../config/index.js'
import type { KernelError } from '../errors.js'
import type { EventRecorder, EventReport } from '../event.js'
import type { Kernel, XtTableName } from '../kernel/index.js'
import type { Log, StateReporter } from '../log.js'
import type { Metrics } from '../metrics/index.js'
import type { HealthCheck } from '../model/index.js'
import type { NodeFacts } from '../node/index.js'
import type { Clock } from '../clock.js'
import type { Pipeline } from './pipeline.js'

/** What modes use of the kernel; its parts are shared by all pipelines, which queue inside. */
export type ModeKernel = Omit<Kernel, 'calls' | 'close' | 'hurry' | 'notifyServiceManager'>

/** A health check that could not be opened. */
export interface HealthCheckFailure {
  /** `namespace/name`. */
  readonly service: string
  readonly event: EventReport
}

/** Health checks of Services as listeners of one family; `server/` has them. */
export interface HealthCheckListeners {
  /** Resolves with those that could not be opened. */
  sync(
    checks: ReadonlyMap<string, HealthCheck>,
    addresses: 'all' | readonly IpAddress[],
  ): Promise<readonly HealthCheckFailure[]>
  stop(): Promise<void>
}

export interface ModeOptions {
  readonly config: Config
  readonly kernel: ModeKernel
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Readonly<Pick<Metrics, IpFamily>>
  /** What cannot be programmed now. */
  readonly problems: StateReporter
  /** Told what Services ask for and do not get. */
  readonly events: EventRecorder
  /** `isHealthy`: whether the kernel is up to date in all families; asked at any time. */
  readonly openHealthChecks: (family: IpFamily, isHealthy: () => boolean) => HealthCheckListeners
  /** Chains that any mode, ours or kube-proxy's, may have left. */
  readonly formerChains: ChainNames
}

/** Names of chains by table of x_tables, as patterns of `XtApplyOptions.prune`. */
export type ChainNames = Readonly<Partial<Record<XtTableName, readonly string[]>>>

export interface CleanUpOptions {
  readonly kernel: ModeKernel
  /** Virtual servers of these addresses are not ours to remove. */
  readonly excludeCidrs: readonly Cidr[]
  /** Chains of all modes. */
  readonly chains: ChainNames
}

/** What a clean-up did. */
export interface CleanUpOutcome {
  /** What was removed, in one sentence for the operator; empty: the mode has nothing to say. */
  readonly text: string
  readonly hasRemoved: boolean
  /** Why something is left, a sentence each; empty: nothing is. */
  readonly failures: readonly string[]
}

/** A proxy mode before it is open: what the agent must know to choose it, and to remove what it left. */
export interface ModeKind {
  readonly name: ConfiguredMode
  /**
   * Makes the kernel ready. Throws ConfigError where a setting cannot work on it, KernelError where it lacks what the mode needs.
   * Absent: this build cannot run the mode.
   */
  readonly open?: (options: OpenModeOptions) => Promise<Mode>
  /** Chains that the mode makes, ours or kube-proxy's of any release. */
  readonly chains: ChainNames
  /** What the kernel lacks, and what helps; undefined: the error says nothing about that. */
  readonly lackOf: (error: KernelError) => string | undefined
  /** Removes what the mode left. Throws KernelError when the kernel could not be read. */
  readonly cleanUp: (options: CleanUpOptions) => Promise<CleanUpOutcome>
}

export interface OpenModeOptions extends ModeOptions {
  /** The settings of connection tracking, on their way; where they fail, no mode can run. */
  readonly conntrack: Promise<void>
}

export interface Mode {
  readonly name: ProxyMode
  /** Those that this kernel can be programmed for. */
  readonly families: readonly IpFamily[]
  /** `isHealthy`: whether all pipelines are up to date; asked at any time, but not before all are open. */
  readonly openPipeline: (family: IpFamily, isHealthy: () => boolean) => Pipeline
  readonly syncPeriodMs: number
  readonly minSyncPeriodMs: number
  readonly restFactor: number
  /** Watches the kernel between runs, so that pipelines need not look for themselves; absent, or undefined when it cannot: they do. */
  readonly openWatch?: () => ModeWatch | undefined
}

export interface ModeWatch {
  /** Resolves when a run of each pipeline is wanted; with false when it has ended: after `close`, or as the kernel refused it. */
  next(): Promise<boolean>
  close(): Promise<void>
}
