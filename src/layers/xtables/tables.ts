import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { XtApplyOptions, XtKeptChain, XtOp, XtOutcome, XtRefusal, Xtables } from '../../kernel/index.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { IptablesTable } from './desired.js'
import type { Clock } from '../../clock.js'
import {
  KernelQuestions,
  type Pass,
  logFamily,
  type ChainNames,
  type StageTimes,
} from '../../engine/index.js'
import { LeftOutObjects, RetryQueue, sendTransaction } from '../objects/index.js'
import { describeKept, reportRepairs } from '../shared/index.js'
import { chainOperations, StagedOps } from './staged.js'
import { TableLooks } from './table-looks.js'

/** The tables of one family. */
export type IptablesXtables = Readonly<Record<IptablesTable, Xtables>>

/** The desired content of the tables, as operations on them. */
export interface TableSource {
  /** All operations since the last call, which the caller hands to the table. */
  take(table: IptablesTable): readonly XtOp[]
  /** A part of them, which `stage` hands over while further service ports are compiled. Absent: there is none. */
  takeChains?(table: IptablesTable): readonly XtOp[]
  /**
   * Releases the routes that own these rules of a table, in both tables, until they are claimed again. Returns them, each with an
   * error; undefined: no route owns a rule, and nothing changed.
   */
  leaveOut(
    table: IptablesTable,
    refusals: readonly XtRefusal[],
  ): ReadonlyMap<ServicePortKey, KernelError> | undefined
  /** Number of our rules in the table, once it has all operations. */
  countRules(table: IptablesTable): number
  /** Filter refuses frontends that nat serves: `dropRefusals` ends it. Absent: rules of filter refuse no frontend. */
  readonly hasSpentRefusals?: boolean
  dropRefusals?(): void
}

export interface IptablesTablesOptions {
  readonly family: IpFamily
  readonly tables: IptablesXtables
  readonly source: TableSource
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** `namespace/name:port`; undefined: the service port does not exist (any more). */
  readonly portNameOf: (route: ServicePortKey) => string | undefined
  /** Chains that any mode may have left. Once all objects are known, a write removes those that are not desired. */
  readonly formerChains: ChainNames
  /** Counts the waits for the kernel as such a stage of the pass. Absent: nothing counts them. */
  readonly stages?: StageTimes
}

/** The outcome of a pass by table; a table that was not written is absent. */
export type WriteReport = Partial<Record<IptablesTable, XtOutcome>>

interface Write {
  readonly pass: Pass
  readonly mayPrune: boolean
  /** Gets the outcome of each table. */
  readonly report: WriteReport
}

/** Operations that are encoded before other work gets its turn: some milliseconds. */
const opsPerTurn = 256

/** Searches for refused rules in one write. One search finds them all, unless there are thousands. */
const mostSearches = 4

/** Errors of a write that no rule causes. */
const notOfRules: ReadonlySet<string> = new Set(['EAGAIN', 'EBADF', 'ENOMEM', 'ENOPROTOOPT', 'EPERM'])

/** Brings the tables of one family to the desired content, and checks that they keep it. */
export class IptablesTables {
  readonly #options: IptablesTablesOptions
  /** Tables that need a write even if there is no operation for them. */
  readonly #behind = new Set<IptablesTable>(['nat', 'filter'])
  /** Tables in which chains of a former owner may stand. */
  readonly #unpruned = new Set<IptablesTable>(['nat', 'filter'])
  readonly #retries: RetryQueue<IptablesTable>
  readonly #questions: KernelQuestions
  readonly #looks: TableLooks<IptablesTable>
  /** Operations that were handed to a table since its last write. */
  readonly #staged = { nat: new StagedOps(), filter: new StagedOps() }
  /** Keys of the problems that are reported for chains that stay, since rules of other programs jump to them. */
  readonly #kept: Record<IptablesTable, readonly string[]> = { nat: [], filter: [] }
  readonly #leftOut: LeftOutObjects<ServicePortKey>
  /** Table nat was written at least once. */
  #isTranslating = false

  constructor(options: IptablesTablesOptions) {
    this.#options = options
    this.#leftOut = new LeftOutObjects({
      ...options,
      nameOf: (route) => `${options.family} ${route}`,
      servicesOf: (route) => {
        const name = options.portNameOf(route)
        return name === undefined ? [] : [name]
      },
    })
    this.#retries = new RetryQueue(options.clock)
    this.#questions = new KernelQuestions(options)
    this.#looks = new TableLooks(options)
  }

  /** Milliseconds until a table or service port that failed is due; undefined: none failed. */
  nextInMs(): number | undefined {
    if (this.isBehind) return this.#retries.nextInMs() ?? 0
    return this.#leftOut.nextInMs()
  }

  /** Whether the kernel refuses service ports, which wait for a retry. */
  get hasRefusals(): boolean {
    return this.#leftOut.nextInMs() !== undefined
  }

  /** Service ports that the kernel refused, to be claimed again now; they wait for a table that could not be written. */
  dueRoutes(): readonly ServicePortKey[] {
    return this.isBehind ? [] : this.#leftOut.due()
  }

  /** The route was claimed: the next write shows whether the kernel takes them. */
  noteClaim(route: ServicePortKey): void {
    this.#leftOut.noteClaim(route)
  }

  /** A table is to be written although nothing desired has changed. A table that failed waits for its retry time. */
  get isWriteDue(): boolean {
    const due = this.#retries.due()
    if (!this.#isTranslating) return !this.#retries.has('nat') || due.includes('nat')
    return [...this.#behind].some((table) => !this.#retries.has(table) || due.includes(table))
  }

  /** A table may differ from the desired state, and needs a write. */
  get isBehind(): boolean {
    return this.#behind.size > 0
  }

  /** The next write removes chains of a former owner. */
  pruneSoon(): void {
    for (const table of ['nat', 'filter'] as const) {
      this.#unpruned.add(table)
      this.#behind.add(table)
    }
  }

  /**
   * Hands a part of the next write to the tables. They need a write from then on, and no look comes before it: a look would take the
   * part for drift.
   */
  async stage(pass: Pass): Promise<void> {
    const { tables, source } = this.#options
    for (const table of ['filter', 'nat'] as const) {
      const ops = source.takeChains?.(table) ?? []
      if (ops.length === 0) continue
      this.#behind.add(table)
      this.#staged[table].add(ops)
      pass.print(chainOperations[table], ops)
      await tables[table].stage(ops)
    }
  }

  /**
   * Writes the pending operations in an order that leaves no gap for clients (the two tables cannot be replaced at once): new
   * refusals, then nat, then filter without the refusals that nat made unneeded. A Service that loses its last endpoint is refused
   * before nat stops serving it. A Service that gets its first endpoint is served before its refusal is removed. The first write
   * begins with nat: ipvs mode may still serve, and our filter would drop its packets where a Service has source ranges. A service
   * port with a rule that the kernel refuses is left out of both tables; the others are written. `mayPrune`: all objects are known,
   * so chains of a former owner may go. Resolves with undefined if a table could not be written.
   */
  async write(pass: Pass, { mayPrune }: { readonly mayPrune: boolean }): Promise<WriteReport | undefined> {
    const { source } = this.#options
    const report: WriteReport = {}
    const write = { pass, mayPrune, report }
    this.#isTranslating ||= await this.#apply('nat', write)
    if (!this.#isTranslating) return undefined
    const isRefusing = await this.#apply('filter', write)
    const isServing = await this.#apply('nat', write)
    if (!isServing) return undefined
    const isLeftOut = isRefusing && this.#behind.has('filter')
    if (source.hasSpentRefusals === true || isLeftOut) {
      source.dropRefusals?.()
      if (!(await this.#apply('filter', write))) return undefined
    }
    if (!isRefusing || this.isBehind) return undefined
    this.#leftOut.settle()
    return report
  }

  /** Looks at each table that needs no write; the next write repairs them. True: chains of ours are missing or changed. */
  async look(kind: 'cheap' | 'full'): Promise<boolean> {
    let isDifferent = false
    for (const table of ['filter', 'nat'] as const) {
      if (this.#behind.has(table)) continue
      const found = await this.#looks.look(table, kind)
      if (found === 'unchanged') continue
      // If another program changed only its own rules, the write finds no work and records the table's new state.
      this.#behind.add(table)
      if (found === 'unknown') this.#retries.fail(table)
      if (found !== 'different') continue
      isDifferent = true
      // Another program restored an older table, perhaps with chains that were removed since.
      this.#unpruned.add(table)
    }
    return isDifferent
  }

  /** False: the table could not be written. */
  async #apply(table: IptablesTable, { pass, mayPrune, report }: Write): Promise<boolean> {
    const { source, metrics } = this.#options
    const ops = source.take(table)
    if (ops.length === 0 && !this.#behind.has(table)) return true
    this.#staged[table].add(ops)
    const print = pass.printLater(chainOperations[table], ops)
    const isPruned = mayPrune && this.#unpruned.has(table)
    const last = await this.#stageInTurns(table, ops)
    const options = isPruned ? { prune: this.#options.formerChains[table] ?? [] } : {}
    const outcome = await this.#ask(
      table,
      async () => await this.#applyLeavingOut(table, { ops: last, options, pass }),
    )
    if (outcome instanceof KernelError) {
      // The addon keeps the operations for the next write.
      print()
      pass.fail(outcome)
      this.#behind.add(table)
      metrics.iptablesRestoreFailures.inc()
      metrics.operation(`write-${table}`).failed.inc()
      return false
    }
    this.#behind.delete(table)
    if (isPruned) this.#unpruned.delete(table)
    reportRepairs(this.#options, this.#options.tables[table])
    metrics.xtablesLockWaitSeconds.observe(outcome.lockWaitMs / 1000)
    if (outcome.isWritten) {
      print()
      metrics.operation(`write-${table}`).applied.inc()
    }
    const staged = this.#staged[table]
    if (staged.length > 0) {
      const rules = metrics.iptablesRules(table)
      rules.total.set(source.countRules(table))
      rules.last.set(staged.rules)
      // A table that is as desired is not written: nothing was sent.
      if (outcome.isWritten)
        pass.count(chainOperations[table], staged, { applied: staged.length, failures: [] })
      this.#staged[table] = new StagedOps()
    }
    this.#reportKept(table, outcome.kept)
    report[table] = outcome
    return true
  }

  /** Throws KernelError when the table cannot be written without the refused service ports either. */
  async #applyLeavingOut(
    table: IptablesTable,
    {
      ops,
      options,
      pass,
    }: { readonly ops: readonly XtOp[]; readonly options: XtApplyOptions; readonly pass: Pass },
  ): Promise<XtOutcome> {
    const { tables, source } = this.#options
    let pending = ops
    return await sendTransaction({
      send: async () => await tables[table].apply(pending, options),
      leaveOut: async (error) => {
        if (!(await this.#leaveOut(table, error, pass))) return false
        pending = source.take(table)
        return true
      },
      mostSearches,
    })
  }

  /** Takes the service ports that have a refused rule out of the desired content. False: there are none. */
  async #leaveOut(table: IptablesTable, error: KernelError, pass: Pass): Promise<boolean> {
    if (notOfRules.has(error.code)) return false
    const { tables, source } = this.#options
    const routes = source.leaveOut(table, await tables[table].refusals())
    if (routes === undefined) return false
    for (const [route, refusal] of routes) {
      this.#leftOut.add(route, refusal)
      pass.note(`${route}: ${refusal.message}`)
    }
    for (const each of ['nat', 'filter'] as const) this.#behind.add(each)
    return true
  }

  #reportKept(table: IptablesTable, kept: readonly XtKeptChain[]): void {
    const { family, problems } = this.#options
    const fields = { ipFamily: logFamily(family), table }
    const keys = kept.map(({ chain }) => `kept ${family} ${table} ${chain}`)
    for (const key of this.#kept[table]) if (!keys.includes(key)) problems.forget(key)
    for (const [i, chain] of kept.entries()) {
      const text = `a leftover: ${describeKept({ family, table }, chain)}`
      problems.report(keys[i] ?? '', { text, fields })
    }
    this.#kept[table] = keys
  }

  /** Stages all but the last turn's operations, which it returns. */
  async #stageInTurns(table: IptablesTable, ops: readonly XtOp[]): Promise<readonly XtOp[]> {
    const { clock, tables } = this.#options
    let from = 0
    for (; from + opsPerTurn < ops.length; from += opsPerTurn) {
      await tables[table].stage(ops.slice(from, from + opsPerTurn))
      await clock.pause()
    }
    return ops.slice(from)
  }

  async #ask<T>(table: IptablesTable, question: (xtables: Xtables) => Promise<T>): Promise<T | KernelError> {
    const about = {
      key: `kernel ${table}`,
      subject: `table ${table}`,
      fields: { table },
      retry: this.#retries.of(table),
    }
    return await this.#questions.ask(about, async () => await question(this.#options.tables[table]))
  }
}
