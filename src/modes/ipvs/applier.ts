import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import {
  type BatchOutcome,
  describeVirtualServer,
  type Ipvs,
  type IpvsOp,
  type RouteOp,
  type Routes,
} from '../../kernel/index.js'
import {
  type Confirmation,
  type CountedOps,
  inOverlappingCuts,
  KernelQuestions,
  type SyncReport,
} from '../../engine/index.js'
import type { Entry } from './tables/entry.js'
import type { IpvsLedger, LedgerCut } from './tables/ledger.js'
import type { Vip } from './tables/vip.js'
import type { VipCut, VipTable } from './tables/vip-table.js'
import type { StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { Clock } from '../../clock.js'
import type { Failures } from './failures.js'
import { reportConflict } from '../shared/index.js'
import type { Reconciler } from './reconciler.js'

export interface IpvsApplierOptions {
  readonly family: IpFamily
  readonly kernel: { readonly ipvs: Ipvs; readonly routes: Routes }
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  /** What cannot be programmed now, of both families. */
  readonly problems: StateReporter
  readonly ledger: IpvsLedger
  readonly vips: VipTable
  readonly failures: Failures
  readonly reconciler: Pick<Reconciler, 'noteChange' | 'requestAfterSurprise'>
}

/** What one pass did: the virtual servers and VIPs that it looked at. */
export interface Pass {
  readonly report: SyncReport
  readonly entries: readonly Entry[]
  readonly vips: Set<Vip>
}

interface Sending {
  readonly part: 'ipvs' | 'routes'
  readonly ops: CountedOps<(IpvsOp | RouteOp)['op']>
  readonly send: () => Promise<BatchOutcome>
}

/** They come first: without the API server and the cluster's DNS nothing else works. */
const firstRoutes = ['default/kubernetes:', 'kube-system/kube-dns:']

/** Brings virtual servers and the bindings of their VIPs from the ledger to the kernel, and its answers back. */
export class IpvsApplier {
  readonly #options: IpvsApplierOptions
  readonly #questions: KernelQuestions
  #isStopping = false

  constructor(options: IpvsApplierOptions) {
    this.#options = options
    this.#questions = new KernelQuestions(options)
  }

  /** What is in progress ends at its next batch. */
  stopSoon(): void {
    this.#isStopping = true
  }

  get isStopping(): boolean {
    return this.#isStopping
  }

  /** Adds and changes virtual servers, and binds nothing. */
  async serve({ entries, report }: Pass): Promise<void> {
    await this.#upsertInTurns(entries, async (cut) => void (await this.#applyServers(cut, report)))
  }

  /** Makes virtual servers by mark, at first without real servers: EEXIST shows that another program has the mark. */
  async makeMarks(entries: readonly Entry[], report: SyncReport): Promise<void> {
    const { ledger } = this.#options
    await this.#inCuts(entries, async (rest) => await this.#applyServers(ledger.planMarks(rest), report))
    await this.#inCuts(entries, async (rest) => await this.#applyServers(ledger.planUpserts(rest), report))
  }

  /**
   * Adds and changes, then binds what got its virtual server: a client of an unbound VIP tries again, one of a bound VIP
   * without virtual server is refused.
   */
  async upsert(pass: Pass): Promise<void> {
    await this.#upsertInTurns(pass.entries, async (cut) => {
      await this.#applyServers(cut, pass.report)
      await this.#bind(pass)
    })
    await this.#bind(pass)
  }

  /** Removes virtual servers, and unbinds last what nobody needs: one that a death leaves behind still carries the mark of ours (docs/adr/0005). */
  async remove(pass: Pass): Promise<void> {
    const { ledger, vips } = this.#options
    await this.#inCuts(
      pass.entries,
      async (rest) => await this.#applyServers(ledger.planRemovals(rest), pass.report),
    )
    this.#takeVips(pass)
    await this.#inCuts(
      [...pass.vips],
      async (rest) => await this.#applyBindings(vips.planUnbinds(rest), pass.report),
    )
  }

  /** Last, as a loser that won may be told to work only when nothing is in its way. */
  settle({ entries, vips }: Pass): void {
    const { failures } = this.#options
    this.#reportConflicts(entries.filter(({ isStale }) => !isStale))
    failures.servers.settle(entries)
    failures.vips.settle(vips)
  }

  async #upsertInTurns(entries: readonly Entry[], apply: (cut: LedgerCut) => Promise<void>): Promise<void> {
    const { ledger } = this.#options
    const plan = (rest: readonly Entry[]): LedgerCut => ledger.planUpserts(rest)
    for (const group of inTurns(entries))
      await inOverlappingCuts(group, { plan, apply, isStopping: () => this.#isStopping })
  }

  async #bind(pass: Pass): Promise<void> {
    const { vips } = this.#options
    await this.#inCuts(
      this.#takeVips(pass),
      async (rest) => await this.#applyBindings(vips.planBinds(rest), pass.report),
    )
  }

  /** Those that may need work now. */
  #takeVips(pass: Pass): readonly Vip[] {
    const vips = this.#options.vips.takeDirty()
    for (const vip of vips) pass.vips.add(vip)
    return vips
  }

  /** Works off a prefix at a time; in between other work gets its turn, and a stop ends it. */
  async #inCuts<T>(items: readonly T[], apply: (rest: readonly T[]) => Promise<readonly T[]>): Promise<void> {
    for (let rest = items; rest.length > 0 && !this.#isStopping;) {
      rest = await apply(rest)
      if (rest.length > 0) await this.#options.clock.pause()
    }
  }

  async #applyServers({ batch, rest }: LedgerCut, report: SyncReport): Promise<readonly Entry[]> {
    const { kernel, ledger, failures } = this.#options
    const send = async (): Promise<BatchOutcome> => await kernel.ipvs.apply(batch.ops)
    const outcome = await this.#send({ part: 'ipvs', ops: batch.ops, send }, report)
    if (outcome === undefined) ledger.disown(batch)
    else this.#note(failures.servers, ledger.confirm(batch, outcome))
    return rest
  }

  async #applyBindings({ batch, rest }: VipCut, report: SyncReport): Promise<readonly Vip[]> {
    const { kernel, vips, failures } = this.#options
    const send = async (): Promise<BatchOutcome> => await kernel.routes.apply(batch.ops)
    const outcome = await this.#send({ part: 'routes', ops: batch.ops, send }, report)
    if (outcome === undefined) vips.disown(batch)
    else this.#note(failures.vips, vips.confirm(batch, outcome))
    return rest
  }

  #note<T extends Entry | Vip>(
    failed: { note(answers: Confirmation<T>): void },
    answers: Confirmation<T>,
  ): void {
    failed.note(answers)
    if (answers.surprises.length > 0) this.#options.reconciler.requestAfterSurprise()
  }

  /** undefined: the batch could not be sent, or its answers were lost; a reconcile finds its effect. */
  async #send({ part, ops, send }: Sending, report: SyncReport): Promise<BatchOutcome | undefined> {
    const { reconciler } = this.#options
    if (ops.length === 0) return { applied: 0, failures: [] }
    reconciler.noteChange()
    const outcome = await this.#questions.ask({ key: `kernel ${part}` }, send)
    if (outcome instanceof KernelError) {
      reconciler.requestAfterSurprise()
      report.isFailed = true
      return undefined
    }
    report.count(ops, outcome)
    return outcome
  }

  #reportConflicts(entries: readonly Entry[]): void {
    const { family, ledger, problems } = this.#options
    for (const { loser, winner, server } of ledger.takeConflicts(entries))
      reportConflict(problems, { family, frontend: describeVirtualServer(server), loser, winner })
  }
}

function isFirst({ route }: Entry): boolean {
  return route !== undefined && firstRoutes.some((prefix) => route.startsWith(prefix))
}

/** Who comes first, then the others. */
function inTurns(entries: readonly Entry[]): readonly (readonly Entry[])[] {
  return [entries.filter(isFirst), entries.filter((entry) => !isFirst(entry))]
}
