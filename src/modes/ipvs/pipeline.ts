import type { LinkEvent, NftChange } from '../../kernel/index.js'
import type { ServicePortKey, ServiceView } from '../../model/index.js'
import { bindingOperations } from '../../layers/vips/index.js'
import type { NodeChange } from '../../node/index.js'
import type { ObjectEvent } from '../../source/index.js'
import {
  type FamilyHealth,
  InForceTimes,
  type KnownObjects,
  reportSizes,
  Pass,
  PassHistory,
  type PassReason,
  type PassRecord,
  worldSize,
} from '../../engine/index.js'
import type { RouteDecisions } from '../../engine/index.js'
import { mayChangeRules } from './chains.js'
import type { CheapLook } from './cheap-look.js'
import { serverOperations } from './operations.js'
import type { IpvsInspection } from './inspection.js'
import { type IpvsParts, openParts } from './parts.js'
import type { IpvsPipelineOptions } from './pipeline-options.js'

/** An address that an interface got or lost. */
export type AddressEvent = Extract<LinkEvent, { readonly kind: 'address' }>

/**
 * The path of one family from events to the kernel: observe, track, decide, compile, diff, apply, confirm. One `runOnce` runs at a
 * time; `apply` and `requestReconcile` may come at any time.
 */
export class IpvsPipeline {
  readonly #options: IpvsPipelineOptions
  readonly #parts: IpvsParts
  readonly decisions: RouteDecisions
  /** Answers people about the Services of the family. */
  readonly inspection: IpvsInspection
  /** Learns what the watch of the kernel sees; the caller requests a run. */
  readonly cheapLook: CheapLook
  #isInForce = false
  readonly #history = new PassHistory()
  readonly #inForce = new InForceTimes({
    isKnown: (key) => this.#parts.tracker.servicePort(key) !== undefined,
    hasFailures: () => this.hasRefusals,
  })

  constructor(options: IpvsPipelineOptions) {
    this.#options = options
    this.#parts = openParts(options)
    const { decisions, inspection, cheapLook } = this.#parts
    this.decisions = decisions
    this.inspection = inspection
    this.cheapLook = cheapLook
  }

  /** Takes events in; the caller requests a run. True: a run is needed. */
  apply(events: readonly ObjectEvent[]): boolean {
    return this.#parts.intake.apply(
      events,
      (known) => this.#isDropDue(known) || this.#parts.ledger.hasDirty || !this.#parts.reconciler.isAdopted,
    )
  }

  /** Takes in that facts about this node changed. Returns whether a run is needed. */
  applyNode({ routing, vipBinding, places }: NodeChange): boolean {
    if (routing) this.#parts.tracker.markAll()
    if (vipBinding) this.requestReconcile()
    if (places) this.#parts.foreign.note()
    const isConcerned = places && this.decisions.applyPlaces()
    return vipBinding || isConcerned || (places && this.#parts.foreign.isRenewDue)
  }

  /** The next run begins with a reconcile. */
  requestReconcile(): void {
    this.#parts.reconciler.request()
  }

  /** Whether a changed address affects our VIPs, the node's source address towards them, or its node ports. */
  concerns({ address, change, index, family: changed }: AddressEvent): boolean {
    const { family, node, vipBinding } = this.#options
    if (changed === family && index !== this.#parts.vips.place.dummyIndex) {
      this.#parts.policies.noteAddresses()
      return true
    }
    if (address === node.facts.addresses[family]) return true
    // While routes bind VIPs, this pipeline itself removes the addresses of the dummy device.
    const isOwnDoing = vipBinding === 'routes' && index === this.#parts.vips.place.dummyIndex
    return change === 'remove' && !isOwnDoing && this.#parts.vips.isNeeded(address)
  }

  /** Takes changes of nf_tables by other programs. True: the next run compares the rules; the caller requests it. */
  noteChanges(changes: readonly NftChange[]): boolean {
    this.#parts.otherAgents.note(changes)
    const isConcerned = changes.some((change) => mayChangeRules(change, this.#options.family))
    if (isConcerned) this.cheapLook.noteUnlock()
    return isConcerned
  }

  get knowsObjects(): boolean {
    return this.#parts.intake.known !== 'nothing'
  }

  /** All objects were in the kernel once. */
  get isInForce(): boolean {
    return this.#isInForce
  }

  get hasRefusals(): boolean {
    return this.#parts.failures.nextInMs() !== undefined
  }

  get isWatchable(): boolean {
    return this.#isInForce
  }

  get health(): FamilyHealth {
    return this.#parts.intake.backlog.health
  }

  /** A run in progress ends at its next batch. */
  stopSoon(): void {
    this.#parts.applier.stopSoon()
  }

  /**
   * One pass. It does nothing before the objects were listed. Until all objects are known it removes nothing that the kernel had at
   * the start. Resolves with the milliseconds until there is work without a new event; undefined: the objects were not listed.
   */
  async runOnce(): Promise<number | undefined> {
    const {
      otherAgents,
      intake,
      stages,
      failures,
      ledger,
      vips,
      reconciler,
      claims,
      drainChoice,
      policies,
      writer,
    } = this.#parts
    otherAgents.runningNow()
    await this.#lookAtKernel()
    // Read before `RouteClaims` takes the events. A `synced` that arrives later counts in the next run: objects that came before it
    // may not be claimed in this one.
    const { known, backlog } = intake
    if (known === 'nothing') return undefined
    if (this.#isIdle(known)) return this.#nextInMs()
    this.cheapLook.forget()
    const pass = new Pass({
      ...this.#options,
      events: intake.beginRun(),
      stages,
      inForce: this.#inForce,
    })
    pass.reason = this.#reason
    for (const entry of failures.servers.due()) ledger.markDirty(entry)
    for (const address of failures.vips.due()) vips.markDirty(address)
    const isReconcileDue = reconciler.isDue
    let isReconcile = false
    if (isReconcileDue) await this.#keepKernel()
    if (!(await this.#preparePolicies(isReconcileDue, known))) pass.fail()
    else await claims.claimChanged(pass)
    if (reconciler.isDue && !pass.isFailed) {
      await drainChoice.refresh()
      isReconcile = true
      const isRead = await reconciler.run({
        keepLeftovers: known !== 'synced',
        isMarkedOurs: (server) => policies.marksOurs(server),
        isMarkedVip: (address) => policies.marksVip(address),
      })
      if (!isRead) pass.fail()
    }
    if (!pass.isFailed) await claims.renewMarks(pass)
    if (this.#isDropDue(known)) ledger.dropLeftovers()
    if (known === 'synced') policies.dropLeftovers()
    if (reconciler.isAdopted) await writer.write(pass, known)
    else pass.fail()
    // Service ports that wait for a mark get the marks that this pass freed.
    if (!pass.isFailed && (await claims.renewMarks(pass))) await writer.write(pass, known)
    reconciler.endPass()
    if (pass.isFailed) backlog.waitOn()
    else backlog.settle()
    this.#isInForce ||= known === 'synced' && reconciler.isAdopted && !pass.isFailed
    this.#endPass(pass, isReconcile)
    reportSizes(this.#options.metrics, {
      'virtual-server': ledger.acknowledgedCount,
      vip: vips.size,
    })
    return this.#nextInMs()
  }

  get services(): ServiceView {
    return this.#parts.intake.currentTracker
  }

  inForceSince(key: ServicePortKey): number | undefined {
    return this.#inForce.since(key)
  }

  get passes(): readonly PassRecord[] {
    return this.#history.records
  }

  get #reason(): PassReason {
    if (!this.#isInForce) return 'start'
    if (this.#parts.reconciler.isDue) return 'reconcile'
    if (this.#parts.tracker.hasDirty) return 'change'
    return this.#parts.failures.nextInMs() === 0 || this.#parts.policies.isWriteDue ? 'retry' : 'change'
  }

  #endPass(pass: Pass, isReconcile: boolean): void {
    const failed = pass.failed(serverOperations, bindingOperations)
    const operations = pass.applied(serverOperations, bindingOperations)
    const fields = { reconcile: isReconcile, failed, ...worldSize(this.#parts.tracker), operations }
    this.#history.add(pass.end({ hasRefusals: failed > 0, fields }))
  }

  /** Finds changes that cause no event: ended connections, and changes by other programs. It is no sync, and is not counted as one. */
  async #lookAtKernel(): Promise<void> {
    if (!this.#parts.reconciler.isAdopted || this.#parts.reconciler.isDue) return
    const isAsExpected = (await this.#parts.draining.look()) && !(await this.cheapLook.findsDrift())
    if (!isAsExpected) this.#parts.reconciler.request()
  }

  /** All objects are known, and former ones are still in the kernel. */
  #isDropDue(known: KnownObjects): boolean {
    return known === 'synced' && this.#parts.ledger.keepsLeftovers
  }

  /** The only work left is to look again later. */
  #isIdle(known: KnownObjects): boolean {
    const isDirty = this.#parts.tracker.hasDirty || this.#parts.ledger.hasDirty || this.#parts.vips.hasDirty
    const isRetryDue = this.#parts.failures.nextInMs() === 0
    const isRenewDue = this.#parts.policies.isRenewDue || this.#parts.foreign.isRenewDue
    const isWriteDue = this.#parts.policies.isWriteDue || this.#parts.guard.isWriteDue
    return (
      this.#isInForce &&
      !(
        this.#isDropDue(known) ||
        isDirty ||
        isRetryDue ||
        isRenewDue ||
        isWriteDue ||
        this.#parts.reconciler.isDue
      )
    )
  }

  #nextInMs(): number {
    const looks = [
      this.#parts.draining.nextInMs(),
      this.#parts.failures.nextInMs(),
      this.#parts.policies.nextInMs(),
      this.#isInForce ? this.cheapLook.nextInMs() : undefined,
    ]
    return Math.min(...looks.map((ms) => ms ?? Infinity), this.#parts.reconciler.nextInMs())
  }

  /** The part of a reconcile outside of the tables: settings that another program changed, and schedulers that became available. */
  async #keepKernel(): Promise<void> {
    const { keepSettings, scheduling } = this.#options
    await keepSettings()
    await this.#parts.guard.read()
    if (await scheduling.recheck()) this.#parts.tracker.markAll()
  }

  /** Takes in the node's settings, and reads sets and chains if a reconcile is due. False: they were never read: compile nothing. */
  async #preparePolicies(isReconcileDue: boolean, known: 'listed' | 'synced'): Promise<boolean> {
    const renewed = await this.#parts.policies.renew()
    if (renewed === 'changed') this.#parts.tracker.markAll()
    const isRead = !isReconcileDue || (await this.#parts.policies.read({ keepLeftovers: known !== 'synced' }))
    if (renewed === 'failed' || !isRead) this.#parts.reconciler.requestAfterSurprise()
    return renewed !== 'failed' && this.#parts.policies.isAdopted
  }

  /** Frees its resources, after the last run. Idempotent. */
  async close(): Promise<void> {
    await this.#parts.policies.close()
  }
}
