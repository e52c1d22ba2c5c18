import type { IpAddress, IpFamily } from '../../address.js'
import {
  type HealthCheckListeners,
  type ConflictReports,
  type TrafficConfig,
  logFamily,
} from '../../engine/index.js'
import type { EventRecorder } from '../../event.js'
import type { Links, Ports, Routes } from '../../kernel/index.js'
import type { StateReporter } from '../../log.js'
import type { HealthCheck, ServicePortKey, FamilyTracker } from '../../model/index.js'
import {
  healthCheckAddressesOf,
  healthCheckSockets,
  type LocalAddresses,
  type NodeFacts,
} from '../../node/index.js'
import type { FrontendConflict, Route } from '../../routing/index.js'
import { ConntrackCleaner, type ConntrackCleanerOptions } from './conntrack-cleaner.js'
import { HeldPorts } from './held-ports.js'
import { PortReports } from './port-reports.js'
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
interface TranslationOptions extends Pick<ConntrackCleanerOptions, 'conntrack' | 'nodePortAddresses'> {
  /** The ports of this machine, to hold node ports or to find other programs that have them. */
  readonly ports: Ports
  readonly links: Links
  readonly routes: Routes
  readonly events: EventRecorder
}

interface AfterSyncOptions extends Omit<ConntrackCleanerOptions, 'conntrack' | 'nodePortAddresses'> {
  /** undefined: the mode is a proxy that listens on frontends itself. */
  readonly translation: TranslationOptions | undefined
  readonly config: TrafficConfig
  readonly tracker: FamilyTracker
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

interface SyncedState {
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
  /** It never changes. */
  readonly #nodeName: string
  readonly #cleaner: ConntrackCleaner | undefined
  readonly #healthChecks: ServiceHealthChecks
  #published: Checks = new Map()
  /** By Service, checks that count when all service ports are written that were dirty in this generation. */
  readonly #waitingChecks = new Map<string, { readonly check: HealthCheck; readonly generation: number }>()
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
    this.#nodeName = options.node.facts.name
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
    const { metrics, reports, tracker } = this.#options
    for (const conflict of conflicts) reports.note(conflict)
    for (const policy of ['internal', 'external'] as const)
      metrics.noLocalEndpoints(policy).set(this.#gaps.count(policy))
    if (isComplete) this.#cleanFlows()
    await this.#options.localhostNodePorts?.run()
    const checks = this.#checksOf(tracker.healthChecks(this.#nodeName))
    if (checks.size > 0 || this.#published.size > 0)
      await this.#healthChecks.sync(checks, this.#healthCheckAddresses(machine))
    this.#published = checks
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
    for (const service of this.#waitingChecks.keys())
      if (!all.has(service)) this.#waitingChecks.delete(service)
    if (all.size === 0) return all
    const checked = new Map(
      Array.from(this.#checked.values(), ({ service, healthCheckNodePort }) => [
        service,
        healthCheckNodePort,
      ]),
    )
    const checks = new Map<string, HealthCheck>()
    for (const [service, newest] of all) {
      const check = this.#publishable(service, newest)
      if (check !== undefined && checked.get(service) === check.port) checks.set(service, check)
    }
    return checks
  }

  /**
   * The check of the Service by what the kernel has: while some of its ports wait for another share, the check says no more endpoints than
   * before. undefined: none.
   */
  #publishable(service: string, newest: HealthCheck): HealthCheck | undefined {
    const { tracker } = this.#options
    const waiting = this.#waitingChecks.get(service)
    if (!tracker.isDirtySince(service, Infinity)) {
      if (waiting !== undefined) this.#waitingChecks.delete(service)
      return newest
    }
    const isWritten = waiting !== undefined && !tracker.isDirtySince(service, waiting.generation)
    // A Service that changes all the time has a dirty port at each moment.
    if (waiting === undefined || isWritten)
      this.#waitingChecks.set(service, { check: newest, generation: tracker.dirtyGeneration })
    const former = isWritten ? waiting.check : this.#published.get(service)
    return former && { ...former, localEndpoints: Math.min(former.localEndpoints, newest.localEndpoints) }
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

type Checks = Parameters<HealthCheckListeners['sync']>[0]

/** Keeps the listeners for health checks of Services, and reports those that could not be opened. */
class ServiceHealthChecks {
  readonly #family: IpFamily
  readonly #listeners: HealthCheckListeners
  readonly #warnings: StateReporter
  /** Services whose health check could not be opened. */
  #failed: ReadonlySet<string> = new Set()

  constructor(
    family: IpFamily,
    { listeners, warnings }: { readonly listeners: HealthCheckListeners; readonly warnings: StateReporter },
  ) {
    this.#family = family
    this.#listeners = listeners
    this.#warnings = warnings
  }

  /** Opens and closes listeners until exactly `checks`, by Service, are open at `addresses`. Reports failures and recoveries. */
  async sync(checks: Checks, addresses: 'all' | readonly IpAddress[]): Promise<void> {
    const failures = await this.#listeners.sync(checks, addresses)
    const failed = new Set<string>()
    for (const { service, event } of failures) {
      failed.add(service)
      const fields = { service, ipFamily: logFamily(this.#family) }
      this.#warnings.report(this.#keyOf(service), { text: event.note, fields, event })
    }
    for (const service of this.#failed) {
      if (!checks.has(service)) this.#warnings.forget(this.#keyOf(service))
      else if (!failed.has(service)) this.#warnings.report(this.#keyOf(service), undefined)
    }
    this.#failed = failed
  }

  async stop(): Promise<void> {
    await this.#listeners.stop()
  }

  #keyOf(service: string): string {
    return `${this.#family} health check of ${service}`
  }
}

type Policy = 'internal' | 'external'

/**
 * Services of traffic policy Local that have a port with endpoints, but with none on this node (kube-proxy's metric
 * sync_proxy_rules_no_local_endpoints_total).
 */
class LocalPolicyGaps {
  readonly #gaps: Readonly<Record<Policy, Gaps>> = { internal: new Gaps(), external: new Gaps() }

  /** undefined: the service port was removed. */
  put(key: ServicePortKey, route: Route | undefined): void {
    const isGap = route !== undefined && route.hasEndpoints && route.localBackends.length === 0
    this.#gaps.internal.set(key, isGap && route.isInternalLocal ? route.service : undefined)
    this.#gaps.external.set(key, isGap && route.isExternalLocal ? route.service : undefined)
  }

  /** Number of such Services. */
  count(policy: Policy): number {
    return this.#gaps[policy].services
  }
}

/** The Services and ports for one policy. */
class Gaps {
  readonly #serviceOf = new Map<ServicePortKey, string>()
  /** How many ports of each Service are in `#serviceOf`. */
  readonly #portCounts = new Map<string, number>()

  /** `service`: the Service of the port; undefined: the port has no gap. */
  set(key: ServicePortKey, service: string | undefined): void {
    const former = this.#serviceOf.get(key)
    if (former === service) return
    if (former !== undefined) this.#count(former, -1)
    if (service === undefined) this.#serviceOf.delete(key)
    else {
      this.#serviceOf.set(key, service)
      this.#count(service, 1)
    }
  }

  get services(): number {
    return this.#portCounts.size
  }

  #count(service: string, change: 1 | -1): void {
    const count = (this.#portCounts.get(service) ?? 0) + change
    if (count === 0) this.#portCounts.delete(service)
    else this.#portCounts.set(service, count)
  }
}
