// A proxy mode as the agent sees it: what it needs of the kernel is in order, and pipelines can be opened.
import type { IpAddress, IpFamily } from '../address.js'
import type { Config, ProxyMode } from '../config/index.js'
import { KernelError } from '../errors.js'
import type { EventRecorder, EventReport } from '../event.js'
import type { Kernel } from '../kernel/index.js'
import { type Log, StateReporter } from '../log.js'
import type { Metrics } from '../metrics/index.js'
import type { HealthCheck } from '../model/index.js'
import type { NodeFacts } from '../node/index.js'
import type { Clock } from './clock.js'
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
  /** Removes what the other modes left, now that this one stands. False: something is left still; never throws KernelError. */
  readonly leaveOthers: () => Promise<boolean>
}

export interface ModeWatch {
  /** Resolves when a run of each pipeline is wanted; with false when it has ended: after `close`, or as the kernel refused it. */
  next(): Promise<boolean>
  close(): Promise<void>
}

/** Warns that a mode has no watch of the kernel. */
export function reportUnwatched(log: Log, error: KernelError): void {
  log.warn('The kernel cannot be watched: it is asked every second instead, which costs more', { err: error })
}

/** What was done about another mode's leftovers. */
export interface LeftoverReport {
  /** What went; undefined: nothing. */
  readonly removed: string | undefined
  /** Empty: nothing is left. */
  readonly failures: readonly KernelError[]
}

/** `leaveOthers` of a mode that has several others: each goes whatever becomes of the rest. */
export function leavingAll(others: readonly (() => Promise<boolean>)[]): () => Promise<boolean> {
  return async () => {
    let isComplete = true
    for (const leave of others) if (!(await leave())) isComplete = false
    return isComplete
  }
}

/** The part of `leaveOthers` for one of them: says what was removed, and once what could not be. */
export function leaving(
  other: 'iptables' | 'ipvs' | 'nftables',
  log: Log,
  remove: () => Promise<LeftoverReport>,
): () => Promise<boolean> {
  const warnings = new StateReporter({
    log,
    level: 'warn',
    trouble: `What ${other} mode left cannot all be removed`,
    recovery: `What ${other} mode left could be removed now`,
    count: () => {},
  })
  const tryIt = async (): Promise<LeftoverReport> => {
    try {
      return await remove()
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      return { removed: undefined, failures: [error] }
    }
  }
  return async () => {
    const { removed, failures } = await tryIt()
    if (removed !== undefined) log.info(`What ${other} mode left: ${removed}`)
    const text = failures.map(({ message }) => message).join('; ')
    warnings.report(other, failures.length === 0 ? undefined : { text })
    return failures.length === 0
  }
}
