// Brings the virtual servers and VIPs of one family from the ledger to the kernel, in the order that keeps them ours and serving.
import type { IpAddress } from '../../address.js'
import type { Pass, WriteOptions } from '../../engine/index.js'
import { type BatchOutcome, describeVirtualServer } from '../../kernel/index.js'
import { type Confirmation, disownBatch, FailedObjects, inOverlappingCuts } from '../objects/index.js'
import { isFirstService } from '../shared/index.js'
import { bindingOperations, type NatGuard, type Vip, type VipCut, type VipTable } from '../vips/index.js'
import type { IpvsContext } from './context.js'
import type { Reconciler } from './reconciler.js'
import type { SetsAndChains } from './sets-and-chains.js'
import type { Entry } from './tables/entry.js'
import type { IpvsLedger, LedgerCut } from './tables/ledger.js'
import { serverOperations } from './tables/server-kind.js'

/** The parts of the layer that a write concerns. */
interface WrittenParts {
  readonly ledger: IpvsLedger
  readonly vips: VipTable
  readonly rules: SetsAndChains
  readonly guard: NatGuard
  readonly failures: Failures
  readonly reconciler: Reconciler
}

/** The virtual servers and VIPs that one pass works on. */
interface Work {
  readonly pass: Pass
  readonly entries: readonly Entry[]
  readonly vips: Set<Vip>
}

export class IpvsWriter {
  readonly #context: IpvsContext
  readonly #parts: WrittenParts
  #isStopping = false
  /** Number of operations that the kernel did not take in the write in progress. */
  #failed = 0

  constructor(context: IpvsContext, parts: WrittenParts) {
    this.#context = context
    this.#parts = parts
  }

  /** Ends the work in progress at its next batch. */
  stopSoon(): void {
    this.#isStopping = true
  }

  /**
   * First it changes the virtual servers that `SetsAndChains.isServable` allows, without waiting for anything else: endpoints may have
   * changed, or been left draining, while no agent ran. Then come sets and rules, then the other virtual servers and the bindings of
   * VIPs. Unwanted objects are removed last. What is refused fails the pass. Returns the number of operations that the kernel did not take.
   */
  async write(pass: Pass, options: WriteOptions): Promise<number> {
    this.#failed = 0
    await this.#writeDirty(pass, options)
    return this.#failed
  }

  async #writeDirty(pass: Pass, options: WriteOptions): Promise<void> {
    const { ledger, reconciler, rules, guard } = this.#parts
    const entries = ledger.takeDirty()
    const work: Work = { pass, entries, vips: new Set() }
    // Also if nothing is sent: giving up an excluded virtual server needs no operation.
    if (entries.length > 0) reconciler.noteChange()
    const servable = new Set(entries.filter((entry) => rules.isServable(entry)))
    await this.#upsert([...servable], pass)
    if (!(await this.#makeMarks(work))) return
    if (!(await rules.admit(entries, pass))) this.#failRules(pass)
    // A client of an unbound VIP tries again, but a client of a bound VIP without a virtual server is refused.
    const others = entries.filter((entry) => !servable.has(entry))
    await this.#upsert(others, pass, async () => await this.#bind(work))
    await this.#bind(work)
    await this.#remove(work)
    if (this.#isStopping) return pass.fail()
    const isComplete = options.isComplete && !pass.isFailed
    if (!(await rules.settle(this.#unbound(entries), { pass, isComplete }))) this.#failRules(pass)
    await guard.write(options)
    this.#settle(work)
  }

  /** Leaves out entries whose VIP is still bound without need: their set entries prove that the binding is ours, and outlive it. */
  #unbound(entries: readonly Entry[]): readonly Entry[] {
    const { vips, ledger } = this.#parts
    return entries.filter((entry) => {
      const isLeftBound = 'address' in entry.key && vips.isLeftBound(entry.key.address)
      if (isLeftBound) ledger.markDirty(entry)
      return !isLeftBound
    })
  }

  /**
   * Makes the virtual servers by mark before a frontend leads to their mark, at first without real servers: EEXIST shows that another
   * program uses the mark. False: the owner of a mark is unknown; the pass ends, and the next one begins with a reconcile.
   */
  async #makeMarks({ entries, pass }: Work): Promise<boolean> {
    const { ledger, rules } = this.#parts
    const marks = ledger.newMarks(entries)
    if (marks.length === 0) return true
    if (!(await rules.admitMarks(marks, pass))) this.#failRules(pass)
    await this.#inCuts(marks, async (rest) => await this.#applyServers(ledger.planMarks(rest), pass))
    await this.#inCuts(marks, async (rest) => await this.#applyServers(ledger.planUpserts(rest), pass))
    if (!marks.some(({ isStale }) => isStale)) return true
    for (const entry of entries) ledger.markDirty(entry)
    this.#failRules(pass)
    return false
  }

  /** A reconcile will find the missing objects. */
  #failRules(pass: Pass): void {
    pass.fail()
    this.#parts.reconciler.requestAfterSurprise()
  }

  /** Adds and changes virtual servers: those of the first Services, then the others. `afterCut` follows each batch. */
  async #upsert(entries: readonly Entry[], pass: Pass, afterCut?: () => Promise<void>): Promise<void> {
    const { ledger } = this.#parts
    const groups = [entries.filter(isFirst), entries.filter((entry) => !isFirst(entry))]
    for (const group of groups)
      await inOverlappingCuts(group, {
        plan: (rest) => ledger.planUpserts(rest),
        send: async (cut) => await this.#sendServers(cut),
        enter: async (cut, answer) => {
          await this.#enterServers(cut, answer, pass)
          await afterCut?.()
        },
        isStopping: () => this.#isStopping,
      })
  }

  async #bind(work: Work): Promise<void> {
    const { vips, guard } = this.#parts
    const due = this.#takeVips(work)
    await guard.write({ isComplete: false })
    await this.#inCuts(due, async (rest) => await this.#applyBindings(vips.planBinds(rest), work.pass))
  }

  /**
   * Removes virtual servers, then unbinds VIPs: after a crash in between, the binding still marks a remaining virtual server as
   * ours (docs/adr/0005).
   */
  async #remove(work: Work): Promise<void> {
    const { ledger, vips } = this.#parts
    const unwanted = work.entries.filter(({ wanted }) => wanted === undefined)
    await this.#inCuts(
      unwanted,
      async (rest) => await this.#applyServers(ledger.planRemovals(rest), work.pass),
    )
    this.#takeVips(work)
    await this.#inCuts(
      [...work.vips],
      async (rest) => await this.#applyBindings(vips.planUnbinds(rest), work.pass),
    )
  }

  /** The VIPs that may need work now. */
  #takeVips(work: Work): readonly Vip[] {
    const vips = this.#parts.vips.takeDirty()
    for (const vip of vips) work.vips.add(vip)
    return vips
  }

  #settle({ entries, vips }: Work): void {
    const { failures } = this.#parts
    failures.servers.settle(entries)
    failures.vips.settle(vips)
  }

  /** Applies one prefix at a time. In between, other work gets its turn, and a stop ends the work. */
  async #inCuts<T>(items: readonly T[], apply: (rest: readonly T[]) => Promise<readonly T[]>): Promise<void> {
    for (let rest = items; rest.length > 0 && !this.#isStopping;) {
      rest = await apply(rest)
      if (rest.length > 0) await this.#context.clock.pause()
    }
  }

  async #applyServers(cut: LedgerCut, pass: Pass): Promise<readonly Entry[]> {
    await this.#enterServers(cut, this.#sendServers(cut), pass)
    return cut.rest
  }

  async #sendServers({ batch }: LedgerCut): Promise<BatchOutcome> {
    if (batch.parts.length === 0) return nothingSent
    this.#parts.reconciler.noteChange()
    return await this.#context.kernel.ipvs.apply(batch.ops)
  }

  async #enterServers({ batch }: LedgerCut, answer: Promise<BatchOutcome>, pass: Pass): Promise<void> {
    if (batch.parts.length === 0) return
    const { ledger, failures } = this.#parts
    const outcome = await this.#context.questions.answers(pass, serverOperations, batch.ops, answer)
    if (outcome === undefined) this.#disown(batch)
    else this.#note(failures.servers, outcome, ledger.confirm(batch, outcome))
  }

  async #applyBindings({ batch, rest }: VipCut, pass: Pass): Promise<readonly Vip[]> {
    if (batch.ops.length === 0) return rest
    const { vips, failures, reconciler } = this.#parts
    const { kernel, questions } = this.#context
    reconciler.noteChange()
    const answer = kernel.routes.apply(batch.ops)
    const outcome = await questions.answers(pass, bindingOperations, batch.ops, answer)
    if (outcome === undefined) this.#disown(batch)
    else this.#note(failures.vips, outcome, vips.confirm(batch, outcome))
    return rest
  }

  /** The batch could not be sent, or its answers were lost. A reconcile finds its effect. */
  #disown(batch: Parameters<typeof disownBatch>[0]): void {
    this.#parts.reconciler.requestAfterSurprise()
    disownBatch(batch)
  }

  #note<T extends Entry | Vip>(
    failed: { note(answers: Confirmation<T>): void },
    { failures }: BatchOutcome,
    answers: Confirmation<T>,
  ): void {
    this.#failed += failures.length
    failed.note(answers)
    if (answers.surprises.length > 0) this.#parts.reconciler.requestAfterSurprise()
  }
}

const nothingSent: BatchOutcome = { applied: 0, failures: [] }

function isFirst(entry: Entry): boolean {
  return isFirstService(entry.service) && entry.route !== undefined
}

/** Virtual servers and VIPs that the kernel refuses. */
export class Failures {
  readonly servers: FailedObjects<Entry, Entry>
  /** Keyed by address: the table may forget a VIP and make it again. */
  readonly vips: FailedObjects<Vip, IpAddress>

  constructor(context: IpvsContext) {
    this.servers = new FailedObjects<Entry, Entry>({
      ...context,
      keyOf: (entry) => entry,
      nameOf: ({ key }) => describeVirtualServer(key),
      servicesOf: ({ wanted, service }) => (wanted === undefined ? [] : [service]),
    })
    this.vips = new FailedObjects<Vip, IpAddress>({
      ...context,
      keyOf: ({ address }) => address,
      nameOf: ({ address }) => `vip ${address}`,
      servicesOf: ({ holders }) => holders.map(({ service }) => service),
    })
  }

  /** Milliseconds until an object is to be retried; undefined: none failed. */
  nextInMs(): number | undefined {
    const times = [this.servers.nextInMs(), this.vips.nextInMs()].filter((ms) => ms !== undefined)
    return times.length === 0 ? undefined : Math.min(...times)
  }
}
