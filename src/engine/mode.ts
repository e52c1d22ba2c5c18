// The interfaces of a proxy mode. A mode supplies a ModeKind, which opens a Mode, which opens a Pipeline for each family.
import type { Cidr, IpAddress, IpFamily } from '../address.js'
import type { Config, ProxyMode } from '../config/index.js'
import type { KernelError } from '../errors.js'
import type { EventRecorder, EventReport } from '../event.js'
import type { Kernel, KernelLack, XtFlavour, XtTableName } from '../kernel/index.js'
import type { Log, StateReporter } from '../log.js'
import type { LocalhostNodePortCounts, Metrics, RelayTotals } from '../metrics/index.js'
import type { HealthCheck } from '../model/index.js'
import type { NodeFacts } from '../node/index.js'
import type { Clock } from '../clock.js'
import type { Intake } from './intake.js'
import type { Pipeline } from './pipeline.js'

/** The kernel's interfaces for modes. All pipelines share them; calls queue inside. */
export type ModeKernel = Omit<
  Kernel,
  'calls' | 'close' | 'firewall' | 'hurry' | 'notifyServiceManager' | 'peerCredentials'
>

/** A health check that could not be opened. */
export interface HealthCheckFailure {
  /** `namespace/name`. */
  readonly service: string
  readonly event: EventReport
}

/** Listeners for health checks of Services, of one family (`server/`). */
export interface HealthCheckListeners {
  /** Opens and closes listeners until exactly `checks` (by `namespace/name`) are open. Resolves with those that could not be opened. */
  sync(
    checks: ReadonlyMap<string, HealthCheck>,
    addresses: 'all' | readonly IpAddress[],
  ): Promise<readonly HealthCheckFailure[]>
  stop(): Promise<void>
}

/** The options that the agent gives to every mode. */
export interface ModeOptions {
  readonly config: Config
  readonly kernel: ModeKernel
  /** The flavour in which the mode writes rules of x_tables: one of `ModeKind.flavours`. A mode without such rules ignores it. */
  readonly flavour: XtFlavour
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly clock: Clock
  /** As `FamilyContext.lookClock`. */
  readonly lookClock?: Pick<Clock, 'now'>
  readonly log: Log
  readonly metrics: Readonly<Pick<Metrics, IpFamily>>
  /** Gets the objects that cannot be programmed now. */
  readonly problems: StateReporter
  /** Receives the mode's Events, such as those about requests of Services that it does not meet. */
  readonly events: EventRecorder
  /** Opens the listeners of one family. `isHealthy`: whether the kernel is up to date in all families; called at any time. */
  readonly openHealthChecks: (family: IpFamily, isHealthy: () => boolean) => HealthCheckListeners
  /** Chains that any mode, ours or kube-proxy's, may have left. */
  readonly formerChains: ChainNames
}

/** Names of chains by table of x_tables, as patterns of `XtApplyOptions.prune`. */
export type ChainNames = Readonly<Partial<Record<XtTableName, readonly string[]>>>

export interface CleanUpOptions {
  readonly kernel: ModeKernel
  /** The clean-up keeps virtual servers of these addresses. */
  readonly excludeCidrs: readonly Cidr[]
  /** Chains of all modes. */
  readonly chains: ChainNames
  /** The flavours of x_tables whose chains are removed. */
  readonly flavours: readonly XtFlavour[]
}

/** The result of a clean-up. */
export interface CleanUpOutcome {
  /** One sentence for the operator that names the removed objects; empty: nothing was removed. */
  readonly text: string
  readonly hasRemoved: boolean
  /** One sentence on each object that is left, with the reason; empty: nothing is left. */
  readonly failures: readonly string[]
}

/** A proxy mode before it is open. The agent chooses a mode by it, and removes the objects that a mode left. */
export interface ModeKind {
  readonly name: ProxyMode
  /** Makes the kernel ready. Throws ConfigError if a setting cannot work on it, KernelError if it lacks a feature that the mode needs. */
  readonly open: (options: OpenModeOptions) => Promise<Mode>
  /** The flavours of x_tables in which the mode can run; empty: it has no rules of x_tables. */
  readonly flavours: readonly XtFlavour[]
  /** Chains that the mode makes, ours or kube-proxy's of any release. */
  readonly chains: ChainNames
  /** The part that the kernel lacks, as an error of `open` shows; undefined: the error shows none. */
  readonly lackOf: (error: KernelError) => KernelLack | undefined
  /** The VIPs that the node has bound for this mode, ours or kube-proxy's. Absent: the mode binds none. Throws KernelError. */
  readonly countVips?: (kernel: ModeKernel) => Promise<number>
  /** Removes the objects that the mode left, ours or kube-proxy's. Throws KernelError when the kernel could not be read. */
  readonly cleanUp: (options: CleanUpOptions) => Promise<CleanUpOutcome>
}

export interface OpenModeOptions extends ModeOptions {
  /** Resolves when the settings of connection tracking are written. When it rejects, userspace mode alone can run. */
  readonly conntrack: Promise<void>
}

/** The parts of an agent that all its pipelines share. */
export interface PipelineAgent {
  /** Has the objects. Each pipeline opens the part of its family. */
  readonly intake: Pick<Intake, 'openFamily'>
  /** Whether all pipelines are up to date. NB: call it only when all are open. */
  readonly isHealthy: () => boolean
}

/** A proxy mode on a kernel that is ready for it. */
export interface Mode {
  readonly name: ProxyMode
  /** The flavour of its rules of x_tables; absent: it has none. */
  readonly flavour?: XtFlavour
  /** The families that this kernel supports, IPv4 first. */
  readonly families: readonly IpFamily[]
  /** Opens the pipeline of one family; called once for each. */
  readonly openPipeline: (family: IpFamily, agent: PipelineAgent) => Pipeline
  /** Longest time between the end of a run of a family and the next one. */
  readonly syncPeriodMs: number
  /** Shortest time between the end of a run and the next one. */
  readonly minSyncPeriodMs: number
  /** `restFactor` of the runners (`BoundedRunner`). */
  readonly restFactor: number
  /** Watches the kernel between runs. Absent, or undefined when the kernel cannot be watched: pipelines look for themselves. */
  readonly openWatch?: () => ModeWatch | undefined
  /** The numbers of the relay; absent, or undefined while the relay is not in use: none. Never throws KernelError. */
  readonly countRelay?: () => Promise<RelayTotals | undefined>
  /** The node ports on loopback addresses that the relay serves beside the mode's own objects; absent: the mode has no such part. */
  readonly countLocalhostNodePorts?: () => LocalhostNodePortCounts
}

/** A watch of the kernel between runs. */
export interface ModeWatch {
  /** Resolves with true when each pipeline needs a run; with false when the watch has ended, by `close` or a refusal of the kernel. */
  next(): Promise<boolean>
  close(): Promise<void>
}
