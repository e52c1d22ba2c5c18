import type { IpAddress, IpFamily } from '../../address.js'
import type { VipBinding } from '../../config/index.js'
import type { KernelLook, LinkEvent, RealServerKey, VirtualServerKey } from '../../kernel/index.js'
import type { Entry } from './tables/entry.js'
import { IpvsLedger } from './tables/ledger.js'
import { VipTable } from './tables/vip-table.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { ServicePortKey, Tracker } from '../../model/index.js'
import type { NodeFacts } from '../../node/index.js'
import { type Route, route } from '../../routing/index.js'
import type { ObjectEvent } from '../../source/index.js'
import {
  Backlog,
  type FamilyHealth,
  applyEvents,
  type HealthCheckListeners,
  type ModeKernel,
  type OpenTrackerOptions,
  openTracker,
  reportSizes,
  Pass,
  PassHistory,
  type PassReason,
  type PassRecord,
  worldSize,
  traceRoute,
} from '../../engine/index.js'
import { CheapLook } from './cheap-look.js'
import type { Clock } from '../../clock.js'
import { DrainChoice } from './drain-choice.js'
import { Draining } from './draining.js'
import { Failures } from './failures.js'
import { IpvsApplier, type Work } from './applier.js'
import { bindingOperations, serverOperations } from './operations.js'
import { IpvsPolicies, type IpvsPoliciesOptions } from './policies.js'
import type { IpvsKernel } from './prepare-kernel.js'
import { Reconciler } from './reconciler.js'
import type { ServiceScheduling } from './service-scheduling.js'

export interface IpvsPipelineOptions {
  readonly family: IpFamily
  /** What Services ask of the scheduler. */
  readonly scheduling: ServiceScheduling
  /** Sets the kernel as the mode needs it, where somebody changed it. */
  readonly keepSettings: () => Promise<void>
  readonly vipBinding: VipBinding
  readonly config: OpenTrackerOptions['config'] & IpvsPoliciesOptions['config']
  /** Time between two reconciles. */
  readonly syncPeriodMs: number
  /** Virtual servers of these addresses are not ours to remove (excludeCIDRs). */
  readonly isExcluded: (address: IpAddress) => boolean
  /** How long an unwanted real server may keep its connections; 0: it is removed at once; Infinity: until they end. */
  readonly gracefulPeriodMs: number
  readonly kernel: IpvsKernel & IpvsPoliciesOptions['kernel'] & Pick<ModeKernel, 'sysctl'>
  /** Of all families that have a pipeline. */
  readonly look: KernelLook
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** What cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** What the operator should know about the place of the VIPs. */
  readonly hints: StateReporter
  /** What a Service asks for and does not get, of both families. */
  readonly warnings: StateReporter
  readonly listeners: HealthCheckListeners
}

/** An address that an interface got or lost. */
export type AddressEvent = Extract<LinkEvent, { readonly kind: 'address' }>

/** Service ports compiled before other work gets its turn: some 10 ms. */
const compileChunk = 1000

/**
 * One family's way from events to the kernel: observe, track, decide, compile, diff, apply, confirm. `runOnce` runs alone;
 * `apply` and `requestReconcile` may come at any time.
 */
export class IpvsPipeline {
  readonly #options: IpvsPipelineOptions
  readonly #tracker: Tracker
  readonly #vips: VipTable
  readonly #ledger: IpvsLedger
  readonly #reconciler: Reconciler
  readonly #failures: Failures
  readonly #drainChoice: DrainChoice
  readonly #draining: Draining
  readonly #applier: IpvsApplier
  readonly #policies: IpvsPolicies
  readonly #cheapLook: CheapLook
  /** How much of the world has been delivered. */
  #known: 'nothing' | 'listed' | 'synced' = 'nothing'
  #isInForce = false
  readonly #backlog: Backlog
  readonly #history = new PassHistory()

  constructor(options: IpvsPipelineOptions) {
    const { family, clock, problems, kernel } = options
    const { ipvs, sysctl } = kernel
    this.#options = options
    this.#backlog = new Backlog(options)
    this.#tracker = openTracker(options)
    this.#vips = new VipTable(options.vipBinding)
    this.#drainChoice = new DrainChoice({ ...options, sysctl })
    this.#ledger = new IpvsLedger(this.#vips, options.isExcluded, this.#drainChoice.drains)
    this.#failures = new Failures({ family, clock, problems, metrics: options.metrics })
    this.#reconciler = new Reconciler({ ...options, ledger: this.#ledger, vips: this.#vips })
    this.#draining = new Draining({
      ...options,
      ipvs,
      ledger: this.#ledger,
      isGone: (key, endpoint) => !this.#hasEndpoint(key, endpoint),
    })
    this.#applier = new IpvsApplier({
      ...options,
      ledger: this.#ledger,
      vips: this.#vips,
      failures: this.#failures,
      reconciler: this.#reconciler,
    })
    this.#policies = new IpvsPolicies({ ...options, tracker: this.#tracker })
    this.#cheapLook = new CheapLook({
      family,
      look: options.look,
      ipvs,
      clock,
      ledger: this.#ledger,
      policies: this.#policies,
    })
  }

  /** Takes events in; the caller asks for a run. True: there is something to do. */
  apply(events: readonly ObjectEvent[]): boolean {
    const changes = applyEvents(this.#tracker, events)
    for (const event of events) {
      if (event.type === 'listed' || event.type === 'synced') this.#known = event.type
    }
    const isDropDue = this.#known === 'synced' && this.#ledger.keepsLeftovers
    const isWork =
      this.#known !== 'nothing' &&
      (isDropDue || this.#tracker.hasDirty || this.#ledger.hasDirty || !this.#reconciler.isAdopted)
    if (isWork) this.#backlog.note(changes)
    return isWork
  }

  /** The node's zone changed: hints may choose otherwise everywhere. */
  markAll(): void {
    this.#tracker.markAll()
  }

  /** The next run begins with a reconcile. */
  requestReconcile(): void {
    this.#reconciler.request()
  }

  /** Whether a changed address concerns our VIPs, the source that the node uses towards them, or its node ports. */
  concerns({ address, change, index, family: changed }: AddressEvent): boolean {
    const { family, node, vipBinding } = this.#options
    if (changed === family && index !== this.#vips.place.dummyIndex) {
      this.#policies.noteAddresses()
      return true
    }
    if (address === node.facts.addresses[family]) return true
    // What leaves the dummy device while routes bind is what this pipeline removed itself.
    const isOwnDoing = vipBinding === 'routes' && index === this.#vips.place.dummyIndex
    return change === 'remove' && !isOwnDoing && this.#vips.isNeeded(address)
  }

  /** The virtual servers to watch, others than before at a turn. */
  takeSample(isTurn: boolean): readonly VirtualServerKey[] {
    return this.#cheapLook.takeSample(isTurn)
  }

  /** The watch begins anew with them; the caller asks for a run. */
  beginWatch(): void {
    this.#cheapLook.beginWatch()
  }

  /** The watch saw that the kernel is not as it was; the caller asks for a run. */
  noteLook(): void {
    this.#cheapLook.note()
  }

  /** The watch saw that another program let go of the lock of the tables; the caller asks for a run. */
  noteUnlock(): void {
    this.#cheapLook.noteUnlock()
  }

  /** The kernel is not watched any more: runs look for themselves. */
  endWatch(): void {
    this.#cheapLook.endWatch()
  }

  /** The whole world was in the kernel once. */
  get isInForce(): boolean {
    return this.#isInForce
  }

  get health(): FamilyHealth {
    return this.#backlog.health
  }

  /** A run in progress ends at its next batch. */
  stopSoon(): void {
    this.#applier.stopSoon()
  }

  /**
   * One pass. Nothing happens before the objects were listed; what was in the kernel before stays until all are known.
   * Resolves with the milliseconds after which there is work without a new event.
   */
  async runOnce(): Promise<number | undefined> {
    await this.#lookAtKernel()
    // Of the same turn as the events that `#claimDirty` takes: what comes meanwhile is the next run's.
    const known = this.#known
    if (known === 'nothing') return undefined
    if (this.#isIdle(known)) return this.#nextInMs()
    this.#cheapLook.forget()
    const pass = new Pass({ ...this.#options, oldestEventMs: this.#backlog.begin() })
    pass.reason = this.#reason
    for (const entry of this.#failures.servers.due()) this.#ledger.markDirty(entry)
    for (const address of this.#failures.vips.due()) this.#vips.markDirty(address)
    const isReconcileDue = this.#reconciler.isDue
    let isReconcile = false
    if (isReconcileDue) await this.#keepKernel()
    if (!(await this.#preparePolicies(isReconcileDue, known))) pass.fail()
    else await this.#claimDirty()
    if (this.#reconciler.isDue && !pass.isFailed) {
      await this.#drainChoice.refresh()
      isReconcile = true
      const isRead = await this.#reconciler.run({
        keepLeftovers: known !== 'synced',
        isMarkedOurs: (server) => this.#policies.marksOurs(server),
        isMarkedVip: (address) => this.#policies.marksVip(address),
      })
      if (!isRead) pass.fail()
    }
    if (!pass.isFailed) await this.#renewsMarks()
    if (known === 'synced' && this.#ledger.keepsLeftovers) this.#ledger.dropLeftovers()
    if (known === 'synced') this.#policies.dropLeftovers()
    if (this.#reconciler.isAdopted) await this.#applyDirty(pass, known)
    // Marks that this pass made free are given to service ports that wait for one.
    if (!pass.isFailed && (await this.#renewsMarks())) await this.#applyDirty(pass, known)
    this.#reconciler.endPass()
    if (pass.isFailed) this.#backlog.waitOn()
    else this.#backlog.settle()
    this.#isInForce ||= known === 'synced' && this.#reconciler.isAdopted && !pass.isFailed
    this.#endPass(pass, isReconcile)
    reportSizes(this.#options.metrics, {
      'virtual-server': this.#ledger.acknowledgedCount,
      vip: this.#vips.size,
    })
    return this.#nextInMs()
  }

  get passes(): readonly PassRecord[] {
    return this.#history.records
  }

  /** Why the pass that begins runs. */
  get #reason(): PassReason {
    if (!this.#isInForce) return 'start'
    if (this.#reconciler.isDue) return 'reconcile'
    if (this.#tracker.hasDirty) return 'change'
    return this.#failures.nextInMs() === 0 || this.#policies.isWriteDue ? 'retry' : 'change'
  }

  #endPass(pass: Pass, isReconcile: boolean): void {
    const failed = pass.failed(serverOperations, bindingOperations)
    const operations = pass.applied(serverOperations, bindingOperations)
    const fields = { reconcile: isReconcile, failed, ...worldSize(this.#tracker), operations }
    this.#history.add(pass.end({ hasRefusals: failed > 0, fields }))
  }

  /** Whether the service port has this endpoint, in any condition. */
  #hasEndpoint(key: ServicePortKey | undefined, { address, port }: RealServerKey): boolean {
    const servicePort = key === undefined ? undefined : this.#tracker.servicePort(key)
    if (servicePort === undefined) return false
    const endpoints = this.#tracker.endpoints(servicePort)
    return endpoints.some((endpoint) => endpoint.address === address && endpoint.port === port)
  }

  /** What needs no event to change: connections that end, and what others do. It is no sync, and counts as none. */
  async #lookAtKernel(): Promise<void> {
    if (!this.#reconciler.isAdopted || this.#reconciler.isDue) return
    const isAsExpected = (await this.#draining.look()) && !(await this.#cheapLook.findsDrift())
    if (!isAsExpected) this.#reconciler.request()
  }

  /** Nothing is to be done but to look again later. */
  #isIdle(known: 'listed' | 'synced'): boolean {
    const isDropDue = known === 'synced' && this.#ledger.keepsLeftovers
    const isDirty = this.#tracker.hasDirty || this.#ledger.hasDirty || this.#vips.hasDirty
    const isRetryDue = this.#failures.nextInMs() === 0
    const isRenewDue = this.#policies.isRenewDue || this.#policies.isWriteDue
    return this.#isInForce && !(isDropDue || isDirty || isRetryDue || isRenewDue || this.#reconciler.isDue)
  }

  #nextInMs(): number {
    const looks = [
      this.#draining.nextInMs(),
      this.#failures.nextInMs(),
      this.#policies.nextInMs(),
      this.#isInForce ? this.#cheapLook.nextInMs() : undefined,
    ]
    return Math.min(...looks.map((ms) => ms ?? Infinity), this.#reconciler.nextInMs())
  }

  /** What a reconcile does beside the table: settings that somebody changed, schedulers that somebody loaded. */
  async #keepKernel(): Promise<void> {
    const { keepSettings, scheduling } = this.#options
    await keepSettings()
    if (await scheduling.recheck()) this.#tracker.markAll()
  }

  /** False: nothing can be compiled before the kernel could be read. */
  async #preparePolicies(isReconcileDue: boolean, known: 'listed' | 'synced'): Promise<boolean> {
    const renewed = await this.#policies.renew()
    if (renewed === 'changed') this.#tracker.markAll()
    const isRead = !isReconcileDue || (await this.#policies.read({ keepLeftovers: known !== 'synced' }))
    if (renewed === 'failed' || !isRead) this.#reconciler.requestAfterSurprise()
    return renewed !== 'failed' && this.#policies.isAdopted
  }

  describe(decided: Route): readonly string[] {
    return this.#policies.describe(decided, this.#options.scheduling.settings)
  }

  /** Gives back what it holds, when no run will come any more. Idempotent. */
  async close(): Promise<void> {
    await this.#policies.close()
  }

  /** What lost its mark, or may have one now, is compiled again before it is sent to the kernel. False: nothing is. */
  async #renewsMarks(): Promise<boolean> {
    const keys = this.#policies.renewMarks(this.#ledger.foreignMarks)
    if (keys.length === 0) return false
    this.#tracker.mark(keys)
    await this.#claimDirty()
    return true
  }

  async #claimDirty(): Promise<void> {
    const { family, scheduling, node, clock, log } = this.#options
    let sincePause = 0
    const dirty = this.#tracker.take()
    this.#options.metrics.dirtyRoutes.inc(dirty.size)
    for (const key of dirty) {
      const port = this.#tracker.servicePort(key)
      if (port === undefined) {
        this.#ledger.claim(key, '', [])
        scheduling.forget(key)
        this.#policies.forget(key)
        traceRoute(log, family, key, undefined)
      } else {
        const decided = route(port, this.#tracker.endpoints(port), node.facts)
        traceRoute(log, family, key, decided)
        if (scheduling.concerns(decided)) await scheduling.settle(decided)
        this.#ledger.claim(key, decided.service, this.#policies.compile(decided, scheduling.settings))
      }
      if (++sincePause % compileChunk === 0) await clock.pause()
    }
  }

  /**
   * First of all the real servers of virtual servers that are there, whatever else is to be waited for: endpoints may have changed,
   * or been left draining, while no agent ran. Then sets and rules, then the other virtual servers and the bindings of VIPs.
   * Unwanted objects are removed last.
   */
  async #applyDirty(pass: Pass, known: 'listed' | 'synced'): Promise<void> {
    const entries = this.#ledger.takeDirty()
    const work: Work = { pass, entries, vips: new Set() }
    // Also where nothing is sent: an excluded virtual server is given up without a word to the kernel.
    if (entries.length > 0) this.#reconciler.noteChange()
    const servable = new Set(entries.filter((entry) => this.#policies.isServable(entry)))
    await this.#applier.serve({ ...work, entries: [...servable] })
    if (!(await this.#makeMarks(work))) return
    if (!(await this.#policies.admit(entries, pass))) this.#failPolicies(pass)
    await this.#applier.upsert({ ...work, entries: entries.filter((entry) => !servable.has(entry)) })
    await this.#applier.remove(work)
    if (this.#applier.isStopping) return pass.fail()
    const isComplete = known === 'synced' && !pass.isFailed
    if (!(await this.#policies.settle(this.#unbound(entries), { pass, isComplete }))) this.#failPolicies(pass)
    this.#applier.settle(work)
  }

  /** Without those whose VIP is still bound though nothing needs it: their set entries prove that the binding is ours, and stay with it. */
  #unbound(entries: readonly Entry[]): readonly Entry[] {
    return entries.filter((entry) => {
      const isLeftBound = 'address' in entry.key && this.#vips.isLeftBound(entry.key.address)
      if (isLeftBound) this.#ledger.markDirty(entry)
      return !isLeftBound
    })
  }

  /**
   * Virtual servers by mark stand before a frontend leads to their mark. False: it is not known whose a mark is; the pass
   * ends, and the next one begins with a reconcile.
   */
  async #makeMarks({ entries, pass }: Work): Promise<boolean> {
    const marks = this.#ledger.newMarks(entries)
    if (marks.length === 0) return true
    if (!(await this.#policies.admitMarks(marks, pass))) this.#failPolicies(pass)
    await this.#applier.makeMarks(marks, pass)
    if (!marks.some(({ isStale }) => isStale)) return true
    for (const entry of entries) this.#ledger.markDirty(entry)
    this.#failPolicies(pass)
    return false
  }

  /** A reconcile will tell what is missing. */
  #failPolicies(pass: Pass): void {
    pass.fail()
    this.#reconciler.requestAfterSurprise()
  }
}
