import type { IpAddress } from '../../address.js'
import type { HealthCheckListeners } from '../../engine/index.js'
import type { EventRecorder } from '../../event.js'
import type { Links, Ports, Routes } from '../../kernel/index.js'
import type { StateReporter } from '../../log.js'
import type { HealthCheck, ServicePortKey, Tracker } from '../../model/index.js'
import {
  healthCheckAddressesOf,
  healthCheckSockets,
  type LocalAddresses,
  type NodeFacts,
} from '../../node/index.js'
import type { FrontendConflict, Route } from '../../routing/index.js'
import { ConntrackCleaner, type ConntrackCleanerOptions } from './conntrack-cleaner.js'
import type { ConflictReports } from '../../engine/index.js'
import { HeldPorts } from './held-ports.js'
import { LocalPolicyGaps } from './local-policy-gaps.js'
import { PortReports } from './port-reports.js'
import { ServiceHealthChecks } from './service-health-checks.js'
import type { TrafficConfig } from '../../engine/index.js'
import { WatchedPorts } from './watched-ports.js'

/** Further work that a mode has after each sync. */
export interface AfterSyncPart {
  /** The address of this machine on whose node ports this part listens itself. */
  readonly listensOn: IpAddress
  /** As `AfterSync.note`. */
  note(key: ServicePortKey, decided: Route | undefined): void
  /** As `AfterSync.run`. Never throws KernelError. */
  run(): Promise<void>
}

/** The part of the kernel that concerns a mode whose rules translate addresses. */
export interface TranslationOptions extends Pick<ConntrackCleanerOptions, 'conntrack' | 'nodePortAddresses'> {
  /** The ports of this machine, to hold node ports or to find other programs that have them. */
  readonly ports: Ports
  readonly links: Links
  readonly routes: Routes
  readonly events: EventRecorder
}

export interface AfterSyncOptions extends Omit<ConntrackCleanerOptions, 'conntrack' | 'nodePortAddresses'> {
  /** undefined: the mode is a proxy that listens on frontends itself. */
  readonly translation: TranslationOptions | undefined
  readonly config: TrafficConfig
  readonly tracker: Tracker
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  /** Gets the requests of Services that the mode does not provide, of both families. */
  readonly warnings: StateReporter
  readonly listeners: HealthCheckListeners
  /** Gets the conflicts. */
  readonly reports: ConflictReports
  /** Absent: none. */
  readonly localhostNodePorts?: AfterSyncPart | undefined
}

export interface SyncedState {
  /** Conflicts since the last call, and conflicts that ended. */
  readonly conflicts: readonly FrontendConflict[]
  /** All objects are known. Until then flows stay: those to endpoints that were not read yet are not stale. */
  readonly isComplete: boolean
  /** The machine's own addresses of this family. */
  readonly machine: readonly IpAddress[]
}

/**
 * The work of a family, in every mode, once everything is in the kernel: conflicts of frontends, stale flows, health checks, ports of
 * this machine, and the metric of Services of policy Local without endpoints here.
 */
export class AfterSync {
  readonly #options: AfterSyncOptions
  readonly #cleaner: ConntrackCleaner | undefined
  readonly #healthChecks: ServiceHealthChecks
  #hasHealthChecks = false
  readonly #ports: HeldPorts | WatchedPorts | undefined
  readonly #gaps = new LocalPolicyGaps()
  /** The routes with a health check port. */
  readonly #checked = new Map<ServicePortKey, Pick<Route, 'service' | 'healthCheckNodePort'>>()
  /** Changes of UDP since the last run. */
  #changes = new Map<ServicePortKey, Route | undefined>()
  /** Changes that the kernel has taken and the cleaner of flows does not have yet. */
  #taken = new Map<ServicePortKey, Route | undefined>()
  /** The clean-up of flows in progress, beside the passes. It never rejects. */
  #cleaning: Promise<void> | undefined
  #isCleaningDue = false
  /** The defect that ended a clean-up. */
  #cleaningFailure: { readonly error: unknown } | undefined
  #lastRunMs = -Infinity

  constructor(options: AfterSyncOptions) {
    this.#options = options
    const { translation } = options
    this.#cleaner = translation && new ConntrackCleaner({ ...options, ...translation })
    this.#healthChecks = new ServiceHealthChecks(options.family, options)
    this.#ports = translation && openPorts({ ...options, ...translation })
  }

  /** The service port was compiled again; undefined: it was removed. */
  note(key: ServicePortKey, decided: Route | undefined): void {
    this.#gaps.put(key, decided)
    if (decided !== undefined && decided.healthCheckNodePort !== 0) this.#checked.set(key, decided)
    else if (this.#checked.size > 0) this.#checked.delete(key)
    this.#ports?.note(key, decided)
    this.#options.localhostNodePorts?.note(key, decided)
    if (this.#cleaner === undefined) return
    if (decided === undefined || decided.protocol === 'UDP') this.#changes.set(key, decided)
  }

  /** Another program removed rules for a while: the next run checks the flows of every frontend. */
  recheckFlows(): void {
    this.#cleaner?.recheck()
  }

  /** The last run is so long ago. A run retries listeners and flows that failed. */
  isOlderThan(ms: number): boolean {
    return this.#options.clock.now() - this.#lastRunMs >= ms
  }

  /**
   * Runs once the kernel has taken everything. A new owner of a frontend is reported as working only now. The clean-up of flows goes on
   * after the run, so that many stale flows of one Service delay no change of another. Rejects with the defect of an earlier clean-up.
   */
  async run({ conflicts, isComplete, machine }: SyncedState): Promise<void> {
    this.#lastRunMs = this.#options.clock.now()
    const { metrics, node, reports, tracker } = this.#options
    for (const conflict of conflicts) reports.note(conflict)
    for (const policy of ['internal', 'external'] as const)
      metrics.noLocalEndpoints(policy).set(this.#gaps.count(policy))
    if (isComplete) this.#cleanFlows()
    await this.#options.localhostNodePorts?.run()
    const checks = this.#checksOf(tracker.healthChecks(node.facts.name))
    if (checks.size > 0 || this.#hasHealthChecks)
      await this.#healthChecks.sync(checks, this.#healthCheckAddresses(machine))
    this.#hasHealthChecks = checks.size > 0
    await this.#ports?.run({ isComplete, machine })
  }

  /** A mode that listens on the VIPs itself may have the same number there, which a socket at all addresses would exclude. */
  #healthCheckAddresses(machine: readonly IpAddress[]): LocalAddresses {
    const { family, config, node, translation } = this.#options
    const facts = { family, config, node: node.facts }
    return translation === undefined
      ? healthCheckSockets(facts, machine)
      : healthCheckAddressesOf(facts, machine)
  }

  /** The checks whose port is in the routes. So no two have the same port (docs/adr/0007). */
  #checksOf(all: ReadonlyMap<string, HealthCheck>): ReadonlyMap<string, HealthCheck> {
    if (all.size === 0) return all
    const checked = new Map(
      Array.from(this.#checked.values(), ({ service, healthCheckNodePort }) => [
        service,
        healthCheckNodePort,
      ]),
    )
    return new Map([...all].filter(([service, { port }]) => checked.get(service) === port))
  }

  async stop(): Promise<void> {
    this.#isCleaningDue = false
    await this.#cleaning
    await this.#healthChecks.stop()
  }

  #cleanFlows(): void {
    const failure = this.#cleaningFailure
    this.#cleaningFailure = undefined
    if (failure !== undefined) throw failure.error
    if (this.#cleaner === undefined) return
    for (const [key, route] of this.#changes) this.#taken.set(key, route)
    this.#changes = new Map()
    this.#isCleaningDue = true
    this.#cleaning ??= this.#cleanUntilDone(this.#cleaner)
  }

  /** Changes that come during a clean-up share the next one. */
  async #cleanUntilDone(cleaner: ConntrackCleaner): Promise<void> {
    try {
      while (this.#isCleaningDue) {
        this.#isCleaningDue = false
        const changes = this.#taken
        this.#taken = new Map()
        await cleaner.clean(changes)
      }
    } catch (error) {
      this.#cleaningFailure = { error }
    }
    this.#cleaning = undefined
  }
}

function openPorts(options: AfterSyncOptions & TranslationOptions): HeldPorts | WatchedPorts {
  const portOptions = { ...options, reports: new PortReports(options) }
  return options.config.nodePortHolding
    ? new HeldPorts({ ...portOptions, exceptAddress: options.localhostNodePorts?.listensOn })
    : new WatchedPorts(portOptions)
}
