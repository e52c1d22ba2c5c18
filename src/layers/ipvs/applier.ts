import type { IpFamily, IpAddress } from '../../address.js'
import { KernelError } from '../../errors.js'
import { type BatchOutcome, describeVirtualServer, type Ipvs, type Routes } from '../../kernel/index.js'
import {
  type CountedOps,
  KernelQuestions,
  type OperationKind,
  type Pass,
  type StageTimes,
} from '../../engine/index.js'
import { type Confirmation, disownBatch, inOverlappingCuts, FailedObjects } from '../objects/index.js'
import type { Entry } from './tables/entry.js'
import type { IpvsLedger, LedgerCut } from './tables/ledger.js'
import { bindingOperations, type NatGuard, type Vip, type VipCut, type VipTable } from '../vips/index.js'
import type { StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { Clock } from '../../clock.js'
import type { FrontendConflict } from '../../routing/index.js'
import { isFirstService } from '../shared/index.js'
import { serverOperations } from './operations.js'
import type { Reconciler } from './reconciler.js'

interface IpvsApplierOptions {
  readonly family: IpFamily
  readonly kernel: { readonly ipvs: Ipvs; readonly routes: Routes }
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  readonly ledger: IpvsLedger
  readonly vips: VipTable
  readonly guard: Pick<NatGuard, 'write'>
  readonly failures: Failures
  readonly reconciler: Pick<Reconciler, 'noteChange' | 'requestAfterSurprise'>
  /** Counts the waits for the kernel as such a stage of the pass. Absent: nothing counts them. */
  readonly stages?: StageTimes
}

/** The virtual servers and VIPs that one pass works on. */
export interface Work {
  readonly pass: Pass
  readonly entries: readonly Entry[]
  readonly vips: Set<Vip>
}

interface Sending<Op extends { readonly op: string }> {
  readonly kind: OperationKind<Op>
  readonly ops: CountedOps<Op>
  readonly send: () => Promise<BatchOutcome>
}

/** Brings virtual servers and the bindings of their VIPs from the ledger to the kernel, and enters the answers in the ledger. */
export class IpvsApplier {
  readonly #options: IpvsApplierOptions
  readonly #questions: KernelQuestions
  #conflicts: FrontendConflict[] = []
  #isStopping = false

  constructor(options: IpvsApplierOptions) {
    this.#options = options
    this.#questions = new KernelQuestions(options)
  }

  /** Ends the work in progress at its next batch. */
  stopSoon(): void {
    this.#isStopping = true
  }

  get isStopping(): boolean {
    return this.#isStopping
  }

  /** Adds and changes virtual servers. It binds no VIP. */
  async serve({ entries, pass }: Work): Promise<void> {
    await this.#upsertInTurns({ entries, pass }, async (cut) => void (await this.#applyServers(cut, pass)))
  }

  /** Makes virtual servers by mark, at first without real servers: EEXIST shows that another program uses the mark. */
  async makeMarks(entries: readonly Entry[], pass: Pass): Promise<void> {
    const { ledger } = this.#options
    await this.#inCuts(entries, async (rest) => await this.#applyServers(ledger.planMarks(rest), pass))
    await this.#inCuts(entries, async (rest) => await this.#applyServers(ledger.planUpserts(rest), pass))
  }

  /**
   * Adds and changes virtual servers, then binds the VIPs of those that exist. A client of an unbound VIP tries again, but a client
   * of a bound VIP without a virtual server is refused.
   */
  async upsert(work: Work): Promise<void> {
    await this.#upsertInTurns(work, async (cut) => {
      await this.#applyServers(cut, work.pass)
      await this.#bind(work)
    })
    await this.#bind(work)
  }

  /**
   * Removes virtual servers, then unbinds VIPs: after a crash in between, the binding still marks a remaining virtual server as
   * ours (docs/adr/0005).
   */
  async remove(work: Work): Promise<void> {
    const { ledger, vips } = this.#options
    await this.#inCuts(
      work.entries,
      async (rest) => await this.#applyServers(ledger.planRemovals(rest), work.pass),
    )
    this.#takeVips(work)
    await this.#inCuts(
      [...work.vips],
      async (rest) => await this.#applyBindings(vips.planUnbinds(rest), work.pass),
    )
  }

  /** Comes last: a new owner of a frontend counts as working only once the kernel has it. */
  settle({ entries, vips }: Work): void {
    const { failures } = this.#options
    this.#noteConflicts(entries.filter(({ isStale }) => !isStale))
    failures.servers.settle(entries)
    failures.vips.settle(vips)
  }

  async #upsertInTurns(
    { entries, pass }: Pick<Work, 'entries' | 'pass'>,
    apply: (cut: LedgerCut) => Promise<void>,
  ): Promise<void> {
    const { ledger } = this.#options
    const plan = (rest: readonly Entry[]): LedgerCut => pass.stages.plan(() => ledger.planUpserts(rest))
    for (const group of inTurns(entries))
      await inOverlappingCuts(group, { plan, apply, isStopping: () => this.#isStopping })
  }

  async #bind(work: Work): Promise<void> {
    const { vips, guard } = this.#options
    const due = this.#takeVips(work)
    await guard.write({ isComplete: false })
    await this.#inCuts(due, async (rest) => await this.#applyBindings(vips.planBinds(rest), work.pass))
  }

  /** The VIPs that may need work now. */
  #takeVips(work: Work): readonly Vip[] {
    const vips = this.#options.vips.takeDirty()
    for (const vip of vips) work.vips.add(vip)
    return vips
  }

  /** Applies one prefix at a time. In between, other work gets its turn, and a stop ends the work. */
  async #inCuts<T>(items: readonly T[], apply: (rest: readonly T[]) => Promise<readonly T[]>): Promise<void> {
    for (let rest = items; rest.length > 0 && !this.#isStopping;) {
      rest = await apply(rest)
      if (rest.length > 0) await this.#options.clock.pause()
    }
  }

  async #applyServers({ batch, rest }: LedgerCut, pass: Pass): Promise<readonly Entry[]> {
    const { kernel, ledger, failures } = this.#options
    const send = async (): Promise<BatchOutcome> => await kernel.ipvs.apply(batch.ops)
    const outcome = await this.#send({ kind: serverOperations, ops: batch.ops, send }, pass)
    if (outcome === undefined) disownBatch(batch)
    else
      this.#note(
        failures.servers,
        pass.stages.plan(() => ledger.confirm(batch, outcome)),
      )
    return rest
  }

  async #applyBindings({ batch, rest }: VipCut, pass: Pass): Promise<readonly Vip[]> {
    const { kernel, vips, failures } = this.#options
    const send = async (): Promise<BatchOutcome> => await kernel.routes.apply(batch.ops)
    const outcome = await this.#send({ kind: bindingOperations, ops: batch.ops, send }, pass)
    if (outcome === undefined) disownBatch(batch)
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

  /** undefined: the batch could not be sent, or its answers were lost. A reconcile finds its effect. */
  async #send<Op extends { readonly op: string }>(
    { kind, ops, send }: Sending<Op>,
    pass: Pass,
  ): Promise<BatchOutcome | undefined> {
    const { reconciler } = this.#options
    if (ops.length === 0) return { applied: 0, failures: [] }
    reconciler.noteChange()
    const outcome = await this.#questions.ask({ key: `kernel ${kind.name}` }, send)
    if (outcome instanceof KernelError) {
      reconciler.requestAfterSurprise()
      pass.fail(outcome)
      return undefined
    }
    pass.count(kind, ops, outcome)
    return outcome
  }

  /** Conflicts of the written claims since the last call, and conflicts that ended. */
  takeConflicts(): readonly FrontendConflict[] {
    const conflicts = this.#conflicts
    this.#conflicts = []
    return conflicts
  }

  #noteConflicts(entries: readonly Entry[]): void {
    for (const { server, ...conflict } of entries.flatMap((entry) => entry.takeConflicts()))
      this.#conflicts.push({ ...conflict, frontend: describeVirtualServer(server) })
  }
}

function isFirst({ route, service }: Entry): boolean {
  return route !== undefined && isFirstService(service)
}

/** The entries of the first routes, then the others. */
function inTurns(entries: readonly Entry[]): readonly (readonly Entry[])[] {
  return [entries.filter(isFirst), entries.filter((entry) => !isFirst(entry))]
}

interface FailuresOptions {
  readonly family: IpFamily
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  readonly problems: StateReporter
}

/** Virtual servers and VIPs that the kernel refuses. */
export class Failures {
  readonly servers: FailedObjects<Entry, Entry>
  /** Keyed by address: the table may forget a VIP and make it again. */
  readonly vips: FailedObjects<Vip, IpAddress>

  constructor(options: FailuresOptions) {
    this.servers = new FailedObjects<Entry, Entry>({
      ...options,
      keyOf: (entry) => entry,
      nameOf: ({ key }) => describeVirtualServer(key),
      servicesOf: ({ wanted, service }) => (wanted === undefined ? [] : [service]),
    })
    this.vips = new FailedObjects<Vip, IpAddress>({
      ...options,
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
