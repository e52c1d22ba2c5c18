import { type LinkEvent, natGuardTables, type NftChange, type RealServerKey } from '../../kernel/index.js'
import type { Entry } from './tables/entry.js'
import { IpvsLedger } from './tables/ledger.js'
import { bindingOperations, ForeignAddresses, NatGuard, VipTable } from '../vips/index.js'
import type { ServicePortKey, ServiceView, Tracker } from '../../model/index.js'
import type { NodeChange } from '../../node/index.js'
import type { Route } from '../../routing/index.js'
import type { ObjectEvent } from '../../source/index.js'
import {
  type FamilyHealth,
  InForceTimes,
  Intake,
  type KnownObjects,
  reportSizes,
  Pass,
  PassHistory,
  type PassReason,
  type PassRecord,
  worldSize,
  StageTimes,
} from '../../engine/index.js'
import { Rival } from '../nft-table/index.js'
import { claimDirty, ConflictReports, RouteDecisions } from '../shared/index.js'
import { mayChangeRules } from './chains.js'
import { CheapLook } from './cheap-look.js'
import { DrainChoice } from './drain-choice.js'
import { Draining } from './draining.js'
import { Failures } from './failures.js'
import { IpvsApplier, type Work } from './applier.js'
import { serverOperations } from './operations.js'
import { IpvsInspection } from './inspection.js'
import type { IpvsPipelineOptions } from './pipeline-options.js'
import { IpvsPolicies } from './policies.js'
import { Reconciler } from './reconciler.js'

/** An address that an interface got or lost. */
export type AddressEvent = Extract<LinkEvent, { readonly kind: 'address' }>

/**
 * The path of one family from events to the kernel: observe, track, decide, compile, diff, apply, confirm. One `runOnce` runs at a
 * time; `apply` and `requestReconcile` may come at any time.
 */
export class IpvsPipeline {
  readonly #options: IpvsPipelineOptions
  readonly #intake: Intake
  readonly #tracker: Tracker
  readonly #vips: VipTable
  readonly #guard: NatGuard
  readonly #foreign: ForeignAddresses
  readonly #ledger: IpvsLedger
  readonly #reconciler: Reconciler
  readonly #failures: Failures
  readonly #drainChoice: DrainChoice
  readonly #draining: Draining
  readonly #applier: IpvsApplier
  readonly #policies: IpvsPolicies
  readonly decisions: RouteDecisions
  /** Answers people about the Services of the family. */
  readonly inspection: IpvsInspection
  /** Learns what the watch of the kernel sees; the caller requests a run. */
  readonly cheapLook: CheapLook
  readonly #rival: Rival
  #isInForce = false
  readonly #history = new PassHistory()
  readonly #stages: StageTimes
  readonly #inForce = new InForceTimes({
    isKnown: (key) => this.#tracker.servicePort(key) !== undefined,
    hasFailures: () => this.hasRefusals,
  })

  constructor(options: IpvsPipelineOptions) {
    const { family, clock, problems, kernel } = options
    const { ipvs, sysctl } = kernel
    this.#options = options
    const stages = new StageTimes(clock)
    this.#stages = stages
    this.#intake = new Intake(options)
    this.#rival = new Rival({ ...options, mode: 'ipvs' })
    this.#tracker = this.#intake.tracker
    this.#foreign = new ForeignAddresses({ ...options, routes: kernel.routes, stages })
    this.#guard = new NatGuard({
      ...options,
      ...kernel,
      stages,
      table: natGuardTables.ipvs,
      ownFlavour: options.flavour,
      mayGuard: () => this.#policies.isMarking,
    })
    this.#vips = new VipTable({
      binding: options.vipBinding,
      onNeed: (address, isVip) => this.#guard.put(address, isVip),
    })
    this.#drainChoice = new DrainChoice({ ...options, sysctl })
    this.#ledger = new IpvsLedger(this.#vips, options.isExcluded, this.#drainChoice.drains)
    this.#failures = new Failures({ family, clock, problems, metrics: options.metrics })
    this.#reconciler = new Reconciler({ ...options, stages, ledger: this.#ledger, vips: this.#vips })
    this.#draining = new Draining({
      ...options,
      ipvs,
      ledger: this.#ledger,
      isGone: (key, endpoint) => !this.#hasEndpoint(key, endpoint),
    })
    const reports = new ConflictReports(options)
    this.decisions = new RouteDecisions({
      ...options,
      ...kernel,
      tracker: this.#tracker,
      reports,
      stages,
    })
    this.#applier = new IpvsApplier({
      ...options,
      stages,
      reports,
      ledger: this.#ledger,
      vips: this.#vips,
      guard: this.#guard,
      failures: this.#failures,
      reconciler: this.#reconciler,
    })
    this.#policies = new IpvsPolicies({
      ...options,
      stages,
      reports,
      tracker: this.#tracker,
    })
    this.inspection = new IpvsInspection({
      ...options,
      ledger: this.#ledger,
      policies: this.#policies,
      foreign: this.#foreign,
      guard: this.#guard,
    })
    this.cheapLook = new CheapLook({
      ...options,
      ipvs,
      ledger: this.#ledger,
      policies: this.#policies,
    })
  }

  /** Takes events in; the caller requests a run. True: a run is needed. */
  apply(events: readonly ObjectEvent[]): boolean {
    return this.#intake.apply(
      events,
      (known) => this.#isDropDue(known) || this.#ledger.hasDirty || !this.#reconciler.isAdopted,
    )
  }

  /** Takes in that facts about this node changed. Returns whether a run is needed. */
  applyNode({ routing, vipBinding, places }: NodeChange): boolean {
    if (routing) this.#tracker.markAll()
    if (vipBinding) this.requestReconcile()
    if (places) this.#foreign.note()
    const isConcerned = places && this.decisions.applyPlaces()
    return vipBinding || isConcerned || (places && this.#foreign.isRenewDue)
  }

  /** The next run begins with a reconcile. */
  requestReconcile(): void {
    this.#reconciler.request()
  }

  /** Whether a changed address affects our VIPs, the node's source address towards them, or its node ports. */
  concerns({ address, change, index, family: changed }: AddressEvent): boolean {
    const { family, node, vipBinding } = this.#options
    if (changed === family && index !== this.#vips.place.dummyIndex) {
      this.#policies.noteAddresses()
      return true
    }
    if (address === node.facts.addresses[family]) return true
    // While routes bind VIPs, this pipeline itself removes the addresses of the dummy device.
    const isOwnDoing = vipBinding === 'routes' && index === this.#vips.place.dummyIndex
    return change === 'remove' && !isOwnDoing && this.#vips.isNeeded(address)
  }

  /** Takes changes of nf_tables by other programs. True: the next run compares the rules; the caller requests it. */
  noteChanges(changes: readonly NftChange[]): boolean {
    this.#rival.note(changes)
    const isConcerned = changes.some((change) => mayChangeRules(change, this.#options.family))
    if (isConcerned) this.cheapLook.noteUnlock()
    return isConcerned
  }

  get knowsObjects(): boolean {
    return this.#intake.known !== 'nothing'
  }

  /** All objects were in the kernel once. */
  get isInForce(): boolean {
    return this.#isInForce
  }

  get hasRefusals(): boolean {
    return this.#failures.nextInMs() !== undefined
  }

  get isWatchable(): boolean {
    return this.#isInForce
  }

  get health(): FamilyHealth {
    return this.#intake.backlog.health
  }

  /** A run in progress ends at its next batch. */
  stopSoon(): void {
    this.#applier.stopSoon()
  }

  /**
   * One pass. It does nothing before the objects were listed. Until all objects are known it removes nothing that the kernel had at
   * the start. Resolves with the milliseconds until there is work without a new event; undefined: the objects were not listed.
   */
  async runOnce(): Promise<number | undefined> {
    this.#rival.isActiveNow()
    await this.#lookAtKernel()
    // Read before `#claimDirty` takes the events. A `synced` that arrives later counts in the next run: objects that came before it
    // may not be claimed in this one.
    const { known, backlog } = this.#intake
    if (known === 'nothing') return undefined
    if (this.#isIdle(known)) return this.#nextInMs()
    this.cheapLook.forget()
    const pass = new Pass({
      ...this.#options,
      events: this.#intake.beginRun(),
      stages: this.#stages,
      inForce: this.#inForce,
    })
    pass.reason = this.#reason
    for (const entry of this.#failures.servers.due()) this.#ledger.markDirty(entry)
    for (const address of this.#failures.vips.due()) this.#vips.markDirty(address)
    const isReconcileDue = this.#reconciler.isDue
    let isReconcile = false
    if (isReconcileDue) await this.#keepKernel()
    if (!(await this.#preparePolicies(isReconcileDue, known))) pass.fail()
    else await this.#claimChanged(pass)
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
    if (!pass.isFailed) await this.#renewsMarks(pass)
    if (this.#isDropDue(known)) this.#ledger.dropLeftovers()
    if (known === 'synced') this.#policies.dropLeftovers()
    if (this.#reconciler.isAdopted) await this.#applyDirty(pass, known)
    else pass.fail()
    // Service ports that wait for a mark get the marks that this pass freed.
    if (!pass.isFailed && (await this.#renewsMarks(pass))) await this.#applyDirty(pass, known)
    this.#reconciler.endPass()
    if (pass.isFailed) backlog.waitOn()
    else backlog.settle()
    this.#isInForce ||= known === 'synced' && this.#reconciler.isAdopted && !pass.isFailed
    this.#endPass(pass, isReconcile)
    reportSizes(this.#options.metrics, {
      'virtual-server': this.#ledger.acknowledgedCount,
      vip: this.#vips.size,
    })
    return this.#nextInMs()
  }

  get services(): ServiceView {
    return this.#intake.currentTracker
  }

  inForceSince(key: ServicePortKey): number | undefined {
    return this.#inForce.since(key)
  }

  get passes(): readonly PassRecord[] {
    return this.#history.records
  }

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

  /** Whether the service port has this endpoint, ready or not. */
  #hasEndpoint(key: ServicePortKey | undefined, { address, port }: RealServerKey): boolean {
    const servicePort = key === undefined ? undefined : this.#tracker.servicePort(key)
    if (servicePort === undefined) return false
    const endpoints = this.#tracker.endpoints(servicePort)
    return endpoints.some((endpoint) => endpoint.address === address && endpoint.port === port)
  }

  /** Finds changes that cause no event: ended connections, and changes by other programs. It is no sync, and is not counted as one. */
  async #lookAtKernel(): Promise<void> {
    if (!this.#reconciler.isAdopted || this.#reconciler.isDue) return
    const isAsExpected = (await this.#draining.look()) && !(await this.cheapLook.findsDrift())
    if (!isAsExpected) this.#reconciler.request()
  }

  /** All objects are known, and former ones are still in the kernel. */
  #isDropDue(known: KnownObjects): boolean {
    return known === 'synced' && this.#ledger.keepsLeftovers
  }

  /** The only work left is to look again later. */
  #isIdle(known: KnownObjects): boolean {
    const isDirty = this.#tracker.hasDirty || this.#ledger.hasDirty || this.#vips.hasDirty
    const isRetryDue = this.#failures.nextInMs() === 0
    const isRenewDue = this.#policies.isRenewDue || this.#foreign.isRenewDue
    const isWriteDue = this.#policies.isWriteDue || this.#guard.isWriteDue
    return (
      this.#isInForce &&
      !(this.#isDropDue(known) || isDirty || isRetryDue || isRenewDue || isWriteDue || this.#reconciler.isDue)
    )
  }

  #nextInMs(): number {
    const looks = [
      this.#draining.nextInMs(),
      this.#failures.nextInMs(),
      this.#policies.nextInMs(),
      this.#isInForce ? this.cheapLook.nextInMs() : undefined,
    ]
    return Math.min(...looks.map((ms) => ms ?? Infinity), this.#reconciler.nextInMs())
  }

  /** The part of a reconcile outside of the tables: settings that another program changed, and schedulers that became available. */
  async #keepKernel(): Promise<void> {
    const { keepSettings, scheduling } = this.#options
    await keepSettings()
    await this.#guard.read()
    if (await scheduling.recheck()) this.#tracker.markAll()
  }

  /** Takes in the node's settings, and reads sets and chains if a reconcile is due. False: they were never read: compile nothing. */
  async #preparePolicies(isReconcileDue: boolean, known: 'listed' | 'synced'): Promise<boolean> {
    const renewed = await this.#policies.renew()
    if (renewed === 'changed') this.#tracker.markAll()
    const isRead = !isReconcileDue || (await this.#policies.read({ keepLeftovers: known !== 'synced' }))
    if (renewed === 'failed' || !isRead) this.#reconciler.requestAfterSurprise()
    return renewed !== 'failed' && this.#policies.isAdopted
  }

  /** Frees its resources, after the last run. Idempotent. */
  async close(): Promise<void> {
    await this.#policies.close()
  }

  /**
   * Compiles again the service ports that lost their mark, or can have one now, before they are sent to the kernel. False: there
   * are none.
   */
  async #renewsMarks(pass: Pass): Promise<boolean> {
    const keys = this.#policies.renewMarks(this.#ledger.foreignMarks)
    if (keys.length === 0) return false
    this.#tracker.mark(keys)
    await this.#claimDirty(pass)
    return true
  }

  /** Claims the changed service ports, and those whose addresses are other machines' now, or are not any more. */
  async #claimChanged(pass: Pass): Promise<void> {
    this.#foreign.setMachine(this.#policies.machine)
    this.#guard.setMachine(this.#policies.machine)
    await this.#claimDirty(pass)
    this.#tracker.mark(await this.#foreign.renew())
    if (this.#tracker.hasDirty) await this.#claimDirty(pass)
  }

  async #claimDirty(pass: Pass): Promise<void> {
    const { scheduling, metrics } = this.#options
    const routes = await claimDirty({
      ...this.#options,
      pass,
      intake: this.#intake,
      decisions: this.decisions,
      claim: (key, decided) =>
        decided !== undefined && scheduling.concerns(decided)
          ? this.#settleAndClaim(decided)
          : this.#claim(key, decided),
      isStopping: () => this.#applier.isStopping,
    })
    metrics.dirtyRoutes.inc(routes)
  }

  async #settleAndClaim(decided: Route): Promise<void> {
    await this.#options.scheduling.settle(decided)
    this.#claim(decided.key, decided)
  }

  #claim(key: ServicePortKey, decided: Route | undefined): void {
    const { scheduling } = this.#options
    const served = decided && this.#foreign.admit(decided)
    this.#ledger.claim(key, served, served ? this.#policies.compile(served, scheduling.settings) : [])
    if (decided !== undefined) return
    this.#foreign.forget(key)
    scheduling.forget(key)
    this.#policies.forget(key)
  }

  /**
   * First it changes the virtual servers that `IpvsPolicies.isServable` allows, without waiting for anything else: endpoints may have
   * changed, or been left draining, while no agent ran. Then come sets and rules, then the other virtual servers and the bindings of
   * VIPs. Unwanted objects are removed last.
   */
  async #applyDirty(pass: Pass, known: 'listed' | 'synced'): Promise<void> {
    const entries = this.#ledger.takeDirty()
    const work: Work = { pass, entries, vips: new Set() }
    // Also if nothing is sent: giving up an excluded virtual server needs no operation.
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
    await this.#guard.write({ isComplete: known === 'synced' })
    this.#applier.settle(work)
  }

  /** Leaves out entries whose VIP is still bound without need: their set entries prove that the binding is ours, and outlive it. */
  #unbound(entries: readonly Entry[]): readonly Entry[] {
    return entries.filter((entry) => {
      const isLeftBound = 'address' in entry.key && this.#vips.isLeftBound(entry.key.address)
      if (isLeftBound) this.#ledger.markDirty(entry)
      return !isLeftBound
    })
  }

  /**
   * Makes the virtual servers by mark before a frontend leads to their mark. False: the owner of a mark is unknown; the pass ends,
   * and the next one begins with a reconcile.
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

  /** A reconcile will find the missing objects. */
  #failPolicies(pass: Pass): void {
    pass.fail()
    this.#reconciler.requestAfterSurprise()
  }
}
