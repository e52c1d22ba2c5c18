import { isDeepStrictEqual } from 'node:util'
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { NftChange, XtOp, Xtables } from '../../kernel/index.js'
import type { IpvsContext } from './context.js'
import {
  compileChains,
  type FixedChain,
  type IpvsChainSettings,
  type IpvsTable,
  ipvsTables,
  type UnfitSets,
} from './compile/chains.js'
import type { ModeKernel, OperationKind, Pass } from '../../engine/index.js'
import { RetryQueue } from '../objects/index.js'
import { reportRepairs } from '../shared/index.js'
import { TableLooks } from '../xtables/index.js'

/** A table of x_tables that is written as a whole. */
interface TableWrite {
  readonly op: `write-${IpvsTable}`
}

const tableOperations: OperationKind<TableWrite> = {
  name: 'xtables',
  describe: () => 'fixed chains',
  isMetered: true,
}

/** Keeps the fixed chains of one family in the kernel. After the first write it writes a table only if its rules change or differ. */
export class IpvsChains {
  readonly #context: IpvsContext
  readonly #tables: Readonly<Record<IpvsTable, Xtables>>
  readonly #looks: TableLooks<IpvsTable>
  readonly #retries: RetryQueue<IpvsTable>
  #settings: IpvsChainSettings | undefined
  #gaps: UnfitSets | undefined
  /** All operations of the last `#compile`. */
  readonly #compiled = new Map<IpvsTable, readonly XtOp[]>()
  /** Operations that are not written yet. The addon keeps those that were written. */
  readonly #pending = new Map<IpvsTable, readonly XtOp[]>()
  /** Tables to write. The write of a table that is already as desired changes nothing. */
  readonly #due = new Set<IpvsTable>(ipvsTables)
  /** Rules of iptables mode exist, and serve until virtual servers do; undefined: not read yet. */
  #isBeside: boolean | undefined

  constructor(context: IpvsContext) {
    const { family, kernel, flavour } = context
    this.#context = context
    this.#tables = {
      mangle: kernel.xtables(family, 'mangle', flavour),
      filter: kernel.xtables(family, 'filter', flavour),
      nat: kernel.xtables(family, 'nat', flavour),
    }
    this.#looks = new TableLooks({ ...context, tables: this.#tables })
    this.#retries = new RetryQueue(context.clock)
  }

  /** Sets the settings that the rules depend on. Unchanged settings have no effect. */
  set(settings: IpvsChainSettings): void {
    if (isDeepStrictEqual(settings, this.#settings)) return
    this.#settings = settings
    this.#compile()
  }

  /** Names the sets that rules must not use. An unchanged value has no effect. */
  leaveOut(gaps: UnfitSets): void {
    if (gaps === this.#gaps || isDeepStrictEqual(gaps, this.#gaps)) return
    this.#gaps = gaps
    this.#compile()
  }

  /** Requests the write of the chains and hooks whose rules changed. */
  #compile(): void {
    if (this.#settings === undefined) return
    const chains = compileChains(this.#settings, this.#gaps)
    for (const table of ipvsTables) {
      const ops = opsOf(chains, table)
      const former = this.#compiled.get(table)
      this.#compiled.set(table, ops)
      const changed = ops.filter((op, index) => !isDeepStrictEqual(op, former?.[index]))
      if (changed.length === 0) continue
      this.#pending.set(table, [...(this.#pending.get(table) ?? []), ...changed])
      this.#due.add(table)
    }
  }

  /** Every table is as desired. */
  get isWritten(): boolean {
    return this.#due.size === 0
  }

  /** A table is to be written now. One that the kernel refused waits for its retry. */
  get isWriteDue(): boolean {
    const due = this.#retries.due()
    return [...this.#due].some((table) => !this.#retries.has(table) || due.includes(table))
  }

  /** Milliseconds until a table is written again; undefined: the kernel refused none. */
  nextInMs(): number | undefined {
    return this.#retries.nextInMs()
  }

  /**
   * Writes the tables that are due. While rules of iptables mode translate connections, it writes nothing unless `isComplete`: all
   * virtual servers exist. False: a table could not be written, or table nat could not be read.
   */
  async write(pass: Pass, { isComplete }: { readonly isComplete: boolean }): Promise<boolean> {
    if (this.isWritten) return true
    this.#isBeside ??= await this.#findsIptablesMode()
    if (this.#isBeside === undefined) return false
    if (this.#isBeside && !isComplete) return true
    this.#isBeside = false
    let isDone = true
    for (const table of ipvsTables)
      if (this.#due.has(table)) isDone = (await this.#writeTable(table, pass)) && isDone
    return isDone
  }

  /**
   * Looks at the tables that need no write. A table that differs is due. `cheap` compares only tables that have certainly changed since
   * our last write. True: a table is to be written.
   */
  async look(kind: 'cheap' | 'full'): Promise<boolean> {
    let isDue = false
    for (const table of ipvsTables) {
      if (this.#due.has(table)) continue
      const found = await this.#looks.look(table, kind)
      if (found === 'unchanged') continue
      // `changed`: the write finds no work and records the table's new state. `unknown`: a set that its rules match may be missing. The
      // sets are made before the write.
      this.#due.add(table)
      isDue ||= found !== 'unknown'
    }
    return isDue
  }

  async #writeTable(table: IpvsTable, pass: Pass): Promise<boolean> {
    const { metrics } = this.#context
    const ops = this.#pending.get(table) ?? []
    const write: TableWrite = { op: `write-${table}` }
    const outcome = await this.#ask(table, async (xtables) => await xtables.apply(ops))
    if (outcome instanceof KernelError) {
      metrics.iptablesRestoreFailures.inc()
      pass.count(tableOperations, [write], {
        applied: 0,
        failures: [{ index: 0, error: outcome, unknown: false }],
      })
      return false
    }
    this.#pending.delete(table)
    this.#due.delete(table)
    reportRepairs(this.#context, this.#tables[table])
    if (outcome.isWritten) pass.count(tableOperations, [write], { applied: 1, failures: [] })
    return true
  }

  /** Looks in both flavours. undefined: the kernel did not answer. */
  async #findsIptablesMode(): Promise<boolean | undefined> {
    const own = await this.#ask('nat', async (xtables) => await xtables.chains())
    if (own instanceof KernelError) return undefined
    // A process may lack the right to list legacy tables. The removal of leftovers reports that.
    const others = await orRefusal(async () => await this.#chainsOfOtherNat())
    const all = others instanceof KernelError ? own : [...own, ...others]
    return all.some(({ chain }) => /^KUBE-(SVC|SEP)-/u.test(chain))
  }

  /** Chains of table nat of the other flavour. A look at a legacy table that does not exist would create it. */
  async #chainsOfOtherNat(): Promise<readonly { readonly chain: string }[]> {
    const { family, kernel, flavour } = this.#context
    if (flavour === 'legacy')
      return (await kernel.nftChains.list(family)).filter(({ table }) => table === 'nat')
    const isActive = (await kernel.activeTables(family, 'legacy')).includes('nat')
    return isActive ? await kernel.xtables(family, 'nat', 'legacy').chains() : []
  }

  async #ask<T>(table: IpvsTable, question: (xtables: Xtables) => Promise<T>): Promise<T | KernelError> {
    const about = {
      key: `kernel ${table}`,
      subject: `table ${table}`,
      fields: { table },
      retry: this.#retries.of(table),
    }
    return await this.#context.questions.ask(about, async () => await question(this.#tables[table]))
  }
}

/** Example values: the kernel loads the same modules for all settings. */
const someSettings = { masqueradeMark: 1, masqueradeAll: false, localDetector: undefined }

/**
 * Makes a kernel with IP_VS and sets load the modules for the rules of the legacy tables. A missing module is reported when the rules
 * are written.
 */
export async function loadForChains(
  { ipvs, ipset, xtables }: Pick<ModeKernel, 'ipvs' | 'ipset' | 'xtables'>,
  family: IpFamily,
): Promise<void> {
  const chains = compileChains({ ...someSettings, family })
  await orRefusal(async () => {
    // These throw on a kernel without IP_VS or ipset. The match on sets would load ipset, even if another mode will run.
    await Promise.all([ipvs.info(), ipset.sets()])
    for (const table of ipvsTables) await xtables(family, table).load(opsOf(chains, table))
  })
}

/** Our tables, and the chains and hooks that have our rules: `mangle `, `mangle INPUT`. They do not depend on settings and families. */
const places: ReadonlySet<string> = new Set([
  ...ipvsTables.map((table) => placeOf(table, '')),
  ...compileChains({ ...someSettings, family: 'ipv4' }).map((chain) => placeOf(chain.table, nameOf(chain))),
])

/** Whether a change of nf_tables by another program may concern our rules of the family. */
export function mayChangeRules(change: NftChange, family: IpFamily): boolean {
  if (change.kind === 'overrun') return true
  return change.objects.some(({ kind, family: of, table, name }) => {
    // An update may be a chain of ours with another name, of which the event has only the new one.
    const mayBeRenamed = kind === 'chain-update' && places.has(placeOf(table, ''))
    return of === family && (mayBeRenamed || places.has(placeOf(table, name)))
  })
}

function placeOf(table: string, chain: string): string {
  return `${table} ${chain}`
}

function nameOf(chain: FixedChain): string {
  return 'hook' in chain ? chain.hook : chain.chain
}

function opsOf(chains: readonly FixedChain[], table: IpvsTable): readonly XtOp[] {
  return chains.filter((chain) => chain.table === table).map(opOf)
}

function opOf(chain: FixedChain): XtOp {
  const { rules } = chain
  if ('hook' in chain) return { op: 'set-hook', chain: chain.hook, rules }
  return { op: 'set-chain', chain: chain.chain, rules }
}
