// The order in which one family's changed objects reach the kernel.
import type { Pass, WriteOptions } from '../../engine/index.js'
import type { NatGuard, VipTable } from '../vips/index.js'
import type { IpvsApplier, Work } from './applier.js'
import type { Reconciler } from './reconciler.js'
import type { SetsAndChains } from './sets-and-chains.js'
import type { Entry } from './tables/entry.js'
import type { IpvsLedger } from './tables/ledger.js'

export interface DirtyWriterOptions {
  readonly applier: Pick<IpvsApplier, 'isStopping' | 'makeMarks' | 'remove' | 'serve' | 'settle' | 'upsert'>
  readonly ledger: Pick<IpvsLedger, 'markDirty' | 'newMarks' | 'takeDirty'>
  readonly vips: Pick<VipTable, 'isLeftBound'>
  readonly rules: Pick<SetsAndChains, 'admit' | 'admitMarks' | 'isServable' | 'settle'>
  readonly guard: Pick<NatGuard, 'write'>
  readonly reconciler: Pick<Reconciler, 'noteChange' | 'requestAfterSurprise'>
}

export class DirtyWriter {
  readonly #options: DirtyWriterOptions

  constructor(options: DirtyWriterOptions) {
    this.#options = options
  }

  /**
   * First it changes the virtual servers that `SetsAndChains.isServable` allows, without waiting for anything else: endpoints may have
   * changed, or been left draining, while no agent ran. Then come sets and rules, then the other virtual servers and the bindings of
   * VIPs. Unwanted objects are removed last. What is refused fails the pass.
   */
  async write(pass: Pass, options: WriteOptions): Promise<void> {
    const { ledger, reconciler, rules, applier, guard } = this.#options
    const entries = ledger.takeDirty()
    const work: Work = { pass, entries, vips: new Set() }
    // Also if nothing is sent: giving up an excluded virtual server needs no operation.
    if (entries.length > 0) reconciler.noteChange()
    const servable = new Set(entries.filter((entry) => rules.isServable(entry)))
    await applier.serve({ ...work, entries: [...servable] })
    if (!(await this.#makeMarks(work))) return
    if (!(await rules.admit(entries, pass))) this.#failRules(pass)
    await applier.upsert({ ...work, entries: entries.filter((entry) => !servable.has(entry)) })
    await applier.remove(work)
    if (applier.isStopping) return pass.fail()
    const isComplete = options.isComplete && !pass.isFailed
    if (!(await rules.settle(this.#unbound(entries), { pass, isComplete }))) this.#failRules(pass)
    await guard.write(options)
    applier.settle(work)
  }

  /** Leaves out entries whose VIP is still bound without need: their set entries prove that the binding is ours, and outlive it. */
  #unbound(entries: readonly Entry[]): readonly Entry[] {
    const { vips, ledger } = this.#options
    return entries.filter((entry) => {
      const isLeftBound = 'address' in entry.key && vips.isLeftBound(entry.key.address)
      if (isLeftBound) ledger.markDirty(entry)
      return !isLeftBound
    })
  }

  /**
   * Makes the virtual servers by mark before a frontend leads to their mark. False: the owner of a mark is unknown; the pass ends,
   * and the next one begins with a reconcile.
   */
  async #makeMarks({ entries, pass }: Work): Promise<boolean> {
    const { ledger, rules, applier } = this.#options
    const marks = ledger.newMarks(entries)
    if (marks.length === 0) return true
    if (!(await rules.admitMarks(marks, pass))) this.#failRules(pass)
    await applier.makeMarks(marks, pass)
    if (!marks.some(({ isStale }) => isStale)) return true
    for (const entry of entries) ledger.markDirty(entry)
    this.#failRules(pass)
    return false
  }

  /** A reconcile will find the missing objects. */
  #failRules(pass: Pass): void {
    pass.fail()
    this.#options.reconciler.requestAfterSurprise()
  }
}
