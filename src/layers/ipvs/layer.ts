// Virtual servers, VIPs, sets and fixed chains of one family, as the loop of the engine calls them. They are one layer: sets and bindings
// prove which virtual servers are ours, so each write has an order across them (writer.ts).
import type { Claim, Layer, LayerState, Look, Pass, WriteOptions, Written } from '../../engine/index.js'
import { dummyDeviceName } from '../../host/index.js'
import { type LinkEvent, natGuardTables, type NftChange } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import { OtherAgents } from '../nft-table/index.js'
import { bindingOperations, NatGuard, VipTable } from '../vips/index.js'
import { mayChangeRules } from './chains.js'
import type { DesiredRoute, DesiredVirtualServer } from './compile/desired.js'
import type { IpvsContext } from './context.js'
import { DrainChoice } from './drain-choice.js'
import { Draining } from './draining.js'
import { DriftCheck } from './drift-check.js'
import { needsMark } from './marks.js'
import { Reconciler } from './reconciler.js'
import { type SetsAndChainsSettings, SetsAndChains } from './sets-and-chains.js'
import { IpvsLedger } from './tables/ledger.js'
import { serverOperations } from './tables/server-kind.js'
import { Failures, IpvsWriter } from './writer.js'

export class IpvsLayer implements Layer<SetsAndChainsSettings, DesiredRoute> {
  readonly #context: IpvsContext
  readonly #parts: Parts
  /** Learns what the watch of the kernel sees. */
  readonly driftCheck: DriftCheck
  /** The claims of routes with a mark, which may become another one. */
  readonly #marked = new Map<ServicePortKey, Claim<DesiredRoute>>()
  /** Service ports whose scheduler became available: to be claimed again. */
  #dueRoutes: readonly ServicePortKey[] = []
  /** The last reading of the kernel failed. */
  #isUnread = false
  /** A write has succeeded. */
  #hasWritten = false
  /** The last write failed; before the first one, nothing is in the kernel. */
  #isFailed = true
  /** Number of operations that the kernel did not take in the last write. */
  #failed = 0

  constructor(context: IpvsContext) {
    this.#context = context
    this.#parts = openParts(context)
    this.driftCheck = new DriftCheck(context, this.#parts)
  }

  /** Finds changes that cause no event: ended connections, and changes by other programs. Reads everything if a reconcile is due. */
  async look(known: 'listed' | 'synced'): Promise<Look> {
    const { otherAgents, reconciler } = this.#parts
    const keepLeftovers = known === 'listed'
    otherAgents.runningNow()
    const look = reconciler.isDue ? 'none' : await this.#lookBriefly(keepLeftovers)
    if (!reconciler.isDue) return look
    if (!(await this.#read(keepLeftovers))) return 'failed'
    return look === 'different' ? look : 'full'
  }

  async #lookBriefly(keepLeftovers: boolean): Promise<Exclude<Look, 'failed'>> {
    const { draining, reconciler, rules } = this.#parts
    // When the kernel lets the sets be read again, everything is compared.
    if (await rules.readSetsAgain({ keepLeftovers })) reconciler.request()
    if (await draining.look()) return await this.driftCheck.look()
    reconciler.request()
    return 'different'
  }

  /** False: sets or virtual servers were never read. Without them, no route can be claimed, and nothing written. */
  async #read(keepLeftovers: boolean): Promise<boolean> {
    const { keepSettings, scheduling } = this.#context
    const { guard, rules, drainChoice, reconciler } = this.#parts
    await keepSettings()
    await guard.read()
    this.#dueRoutes = [...this.#dueRoutes, ...(await scheduling.recheck())]
    await rules.read({ keepLeftovers })
    if (!rules.isAdopted) return false
    this.#isUnread = !(await reconciler.read())
    await drainChoice.refresh()
    return reconciler.isAdopted || !this.#isUnread
  }

  configure(settings: SetsAndChainsSettings): void {
    const { rules, guard } = this.#parts
    rules.configure(settings)
    guard.setMachine(settings.machine)
  }

  claim(key: ServicePortKey, claim: Claim<DesiredRoute> | undefined): void {
    const { ledger, rules } = this.#parts
    if (claim !== undefined && needsMark(claim.served)) {
      this.#marked.set(key, claim)
      return this.#claimMarked(claim)
    }
    this.#marked.delete(key)
    rules.marks.release(key)
    if (claim === undefined) this.#context.scheduling.forget(key)
    ledger.claim(key, claim?.served.service, claim?.desired.servers ?? [])
  }

  #claimMarked({ served, desired }: Claim<DesiredRoute>): void {
    const { ledger, rules } = this.#parts
    const mark = rules.marks.take(served, desired.servers)
    ledger.claim(served.key, served.service, serversOf(desired, mark))
  }

  /** Claims the routes again that lost their mark to another program, or that can have one now. False: there are none. */
  #renewMarks(): boolean {
    const { ledger, rules } = this.#parts
    const keys = rules.marks.renew(ledger.foreignMarks)
    for (const key of keys) {
      const claim = this.#marked.get(key)
      if (claim !== undefined) this.#claimMarked(claim)
    }
    return keys.length > 0
  }

  /** Compares the last reading first: the claims show which objects of the kernel are ours. */
  async write(pass: Pass, { isComplete }: WriteOptions): Promise<Written> {
    const { draining, failures, ledger, vips, reconciler, rules, writer } = this.#parts
    this.driftCheck.forget()
    for (const entry of failures.servers.due()) ledger.markDirty(entry)
    for (const address of failures.vips.due()) vips.markDirty(address)
    if (this.#isUnread) pass.fail()
    this.#isUnread = false
    const isReconcile = reconciler.compare({
      keepLeftovers: !isComplete,
      isMarkedOurs: (server) => rules.marksOurs(server),
      isMarkedVip: (address) => rules.marksVip(address),
    })
    this.#renewMarks()
    if (isComplete) {
      ledger.dropLeftovers()
      rules.dropLeftovers()
    }
    this.#failed = await writer.write(pass, { isComplete })
    // Service ports that wait for a mark get the marks that this write freed.
    if (!pass.isFailed && this.#renewMarks()) this.#failed += await writer.write(pass, { isComplete })
    reconciler.endPass()
    draining.noteWritten()
    return this.#end(pass, isReconcile)
  }

  #end(pass: Pass, isReconcile: boolean): Written {
    const { ledger, vips } = this.#parts
    this.#isFailed = pass.isFailed
    this.#hasWritten ||= !pass.isFailed
    return {
      isComplete: !pass.isFailed,
      sizes: { 'virtual-server': ledger.acknowledgedCount, vip: vips.size },
      logFields: { reconcile: isReconcile },
      loggedOperations: [serverOperations, bindingOperations],
    }
  }

  /** The service ports whose scheduler became available. */
  dueRoutes(): readonly ServicePortKey[] {
    const due = this.#dueRoutes
    this.#dueRoutes = []
    return due
  }

  noteVipBinding(): boolean {
    this.#parts.reconciler.request()
    return true
  }

  /**
   * Another program removed the dummy device, changed lo, or changed an address that matters here. The repair does not wait for the next
   * period.
   */
  noteLinks(events: readonly LinkEvent[]): boolean {
    const isConcerned = events.some((event) => this.#isConcernedBy(event))
    if (isConcerned) this.#parts.reconciler.request()
    return isConcerned
  }

  /** An address concerns the mode that is one of its VIPs, the node's source address towards them, or one of its node ports. */
  #isConcernedBy(event: LinkEvent): boolean {
    if (event.kind === 'overrun') return true
    // When lo goes down, the kernel removes all routes of lo, and notifies only of the link.
    if (event.kind === 'link')
      return event.name === 'lo' || (event.change === 'remove' && event.name === dummyDeviceName)
    const { family, node, vipBinding } = this.#context
    const { vips } = this.#parts
    const isOnDummy = event.index === vips.place.dummyIndex
    if (event.family === family && !isOnDummy) return true
    if (event.address === node.facts.addresses[family]) return true
    // While routes bind VIPs, this layer itself removes the addresses of the dummy device.
    const isOwnDoing = vipBinding === 'routes' && isOnDummy
    return event.change === 'remove' && !isOwnDoing && vips.isNeeded(event.address)
  }

  /** Takes changes of nf_tables by other programs. True: the next pass compares the rules; the caller requests it. */
  noteChanges(changes: readonly NftChange[]): boolean {
    this.#parts.otherAgents.note(changes)
    const isConcerned = changes.some((change) => mayChangeRules(change, this.#context.family))
    if (isConcerned) this.driftCheck.noteUnlock()
    return isConcerned
  }

  /** The write in progress ends at its next batch. */
  stopSoon(): void {
    this.#parts.writer.stopSoon()
  }

  get state(): LayerState {
    const { failures } = this.#parts
    return {
      isWriteDue: this.#isWriteDue,
      isBehind: this.#isFailed,
      // An answer that contradicts the acknowledged state is no refusal, but its object is not known to be in the kernel.
      hasRefusals: this.#failed > 0 || failures.nextInMs() !== undefined,
      nextInMs: this.#nextInMs(),
    }
  }

  get #isWriteDue(): boolean {
    const { failures, guard, ledger, reconciler, rules, vips } = this.#parts
    return (
      !this.#hasWritten ||
      this.#isUnread ||
      reconciler.isDue ||
      reconciler.hasReading ||
      ledger.hasDirty ||
      vips.hasDirty ||
      failures.nextInMs() === 0 ||
      rules.isWriteDue ||
      guard.isWriteDue
    )
  }

  #nextInMs(): number {
    const { draining, failures, reconciler, rules } = this.#parts
    const times = [
      draining.nextInMs(),
      failures.nextInMs(),
      rules.nextInMs(),
      this.#hasWritten ? this.driftCheck.nextInMs() : undefined,
    ]
    return Math.min(...times.map((ms) => ms ?? Infinity), reconciler.nextInMs())
  }

  /** The virtual servers of the route with its present mark, without a change of any kind. */
  present({ served, desired }: Claim<DesiredRoute>): readonly DesiredVirtualServer[] {
    return serversOf(desired, needsMark(served) ? this.#parts.rules.marks.markOf(served.key) : undefined)
  }

  get guard(): Pick<NatGuard, 'placeOf'> {
    return this.#parts.guard
  }

  get marks(): Pick<SetsAndChains['marks'], 'answerFor'> {
    return this.#parts.rules.marks
  }
}

function serversOf(
  { servers, withMark }: DesiredRoute,
  mark: number | undefined,
): readonly DesiredVirtualServer[] {
  return mark === undefined ? servers : withMark(mark)
}

type Parts = ReturnType<typeof openParts>

/** Opens the parts of a layer, each with those that it uses. None reads the kernel yet. */
function openParts(context: IpvsContext) {
  const { kernel, flavour, vipBinding, isExcluded } = context
  const rules = new SetsAndChains(context)
  const guard = new NatGuard({
    ...context,
    ...kernel,
    table: natGuardTables.ipvs,
    ownFlavour: flavour,
    mayGuard: () => rules.isMarking,
  })
  const vips = new VipTable({
    binding: vipBinding,
    onNeed: (address, isVip) => guard.put(address, isVip),
  })
  const drainChoice = new DrainChoice(kernel.sysctl, context.config.ipvs.gracefulPeriodMs)
  const ledger = new IpvsLedger(vips, isExcluded, drainChoice.drains)
  const failures = new Failures(context)
  const reconciler = new Reconciler(context, ledger, vips)
  return {
    rules,
    guard,
    vips,
    drainChoice,
    ledger,
    failures,
    reconciler,
    draining: new Draining(context, ledger),
    writer: new IpvsWriter(context, { rules, guard, vips, ledger, failures, reconciler }),
    otherAgents: new OtherAgents({ ...context, mode: 'ipvs' }),
  }
}
