import { constants } from 'node:os'
import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import { nfError } from '../nftables/decode-outcome.js'
import { describeSet, describeTable } from '../nftables/describe.js'
import type { NfElements } from '../nftables/elements.js'
import { translatesDestinations } from '../nftables/nat-hook.js'
import type {
  NfApplyOptions,
  NfChainState,
  NfCounterState,
  NfFailure,
  NfHookChain,
  NfOp,
  NfOutcome,
  NfRuleState,
  NfScope,
  NfSet,
  NfTablePlace,
  NfSetState,
  NfTableKey,
  NfTableState,
  NfTransaction,
  Nftables,
  NftWatch,
} from '../nftables/nftables.js'
import { PlannedNftTable } from './planned-nft-table.js'
import { PlannedWatch } from './planned-watch.js'

const { EEXIST, ENOENT } = constants.errno

export interface PlannedNftOptions {
  /** False: nf_tables is not loaded, and has no tables. */
  readonly isLoaded: boolean
  /** Whether the kernel may check a dry run. It may not if it could load modules for the check; then the plan finds no error. */
  readonly canProbe: boolean
}

/** The nf_tables of a plan. A table is the kernel's until the first write to it. */
export class PlannedNftables implements Nftables {
  readonly #real: Nftables
  readonly #isLoaded: boolean
  readonly #canProbe: boolean
  /** The tables that the plan has written, by `describeTable`; undefined: it has deleted the table. */
  #tables = new Map<string, PlannedNftTable | undefined>()
  #commits = 0

  constructor(real: Nftables, { isLoaded, canProbe }: PlannedNftOptions) {
    this.#real = real
    this.#isLoaded = isLoaded
    this.#canProbe = canProbe
  }

  async apply(transaction: NfTransaction, { isDryRun = false }: NfApplyOptions = {}): Promise<NfOutcome> {
    if (isDryRun && this.#canProbe) return await this.#real.apply(transaction, { isDryRun })
    if (isDryRun) return { state: 'applied', failures: [], handles: new Map() }
    const before = new Map([...this.#tables].map(([name, table]) => [name, table?.copy()]))
    const failures: NfFailure[] = []
    const handles = new Map<number, number>()
    for (const [operation, op] of transaction.entries()) {
      const { errno, handle } = await this.#applyOne(op)
      if (errno !== 0) failures.push({ operation, error: nfError(transaction, operation, { errno }) })
      if (handle !== undefined && 'wantsHandle' in op && op.wantsHandle) handles.set(operation, handle)
    }
    if (failures.length > 0) {
      this.#tables = before
      return { state: 'refused', failures, handles: new Map() }
    }
    this.#commits++
    return { state: 'applied', generation: await this.generation(), failures, handles }
  }

  async generation(): Promise<number> {
    return (this.#isLoaded ? await this.#real.generation() : 1) + this.#commits
  }

  async tables(family: IpFamily): Promise<readonly NfTableState[]> {
    const kernel = this.#isLoaded ? await this.#real.tables(family) : []
    const others = kernel.filter((table) => !this.#tables.has(describeTable(table)))
    return [...others, ...this.#planned({ family }).map(({ state }) => state)]
  }

  async chains(scope: NfScope): Promise<readonly NfChainState[]> {
    const kernel = await this.#kernel(scope, async () => await this.#real.chains(scope))
    return [...kernel, ...this.#planned(scope).flatMap(({ chains }) => [...chains.values()])]
  }

  async rules(scope: NfScope & { readonly chain?: string }): Promise<readonly NfRuleState[]> {
    const found = [...(await this.#kernel(scope, async () => await this.#real.rules(scope)))]
    for (const table of this.#planned(scope)) {
      const chains = scope.chain === undefined ? [...table.chains.keys()] : [scope.chain]
      for (const chain of chains) found.push(...(await table.rules(chain)))
    }
    return found
  }

  async forwardChains(): Promise<readonly NfHookChain[]> {
    const kernel = this.#isLoaded ? await this.#real.forwardChains() : []
    const found = kernel.filter(
      ({ family, table }) => family === 'inet' || !this.#tables.has(describeTable({ family, table })),
    )
    for (const planned of this.#tables.values()) {
      if (planned === undefined || planned.state.flags?.includes('dormant') === true) continue
      for (const { family, table, chain, hook } of planned.chains.values()) {
        if (hook?.hook !== 'forward') continue
        const rules = (await planned.rules(chain)).map(({ expressions }) => expressions)
        found.push({ family, table, chain, policy: hook.policy ?? 'accept', rules })
      }
    }
    return found
  }

  async tablesWithNat(family: IpFamily): Promise<readonly NfTablePlace[]> {
    const kernel = this.#isLoaded ? await this.#real.tablesWithNat(family) : []
    const found = kernel.filter(
      (place) => place.family === 'inet' || !this.#tables.has(describeTable({ family, table: place.table })),
    )
    for (const planned of this.#tables.values()) {
      const isOfFamily = planned !== undefined && planned.state.family === family
      if (isOfFamily && [...planned.chains.values()].some(({ hook }) => translatesDestinations(hook)))
        found.push({ family, table: planned.state.table })
    }
    return found
  }

  async sets(scope: NfScope): Promise<readonly NfSetState[]> {
    const { family, table } = scope
    if (table !== undefined && (await this.#isAbsent({ family, table })))
      throw absent('dump nf_tables sets', describeTable({ family, table }))
    const kernel = await this.#kernel(scope, async () => await this.#real.sets(scope))
    return [
      ...kernel,
      ...this.#planned(scope).flatMap(({ sets }) => [...sets.values()].map(({ state }) => state)),
    ]
  }

  async counters(scope: NfScope): Promise<readonly NfCounterState[]> {
    const kernel = await this.#kernel(scope, async () => await this.#real.counters(scope))
    return [...kernel, ...this.#planned(scope).flatMap(({ counters }) => [...counters.values()])]
  }

  async elements(set: NfSet): Promise<NfElements> {
    if (this.#isLoaded && !this.#tables.has(describeTable(set))) return await this.#real.elements(set)
    const elements = await this.#tables.get(describeTable(set))?.elements(set)
    if (elements === undefined) throw absent('dump nf_tables elements', describeSet(set))
    return elements
  }

  watch(): NftWatch {
    return new PlannedWatch()
  }

  close(): Promise<void> {
    return this.#real.close()
  }

  /** Deletes a table with its content. False: it was absent. */
  async discardTable(key: NfTableKey): Promise<boolean> {
    if (await this.#isAbsent(key)) return false
    this.#tables.set(describeTable(key), undefined)
    this.#commits++
    return true
  }

  async #applyOne(op: NfOp): Promise<{ readonly errno: number; readonly handle?: number }> {
    const key = keyOf(op)
    const name = describeTable(key)
    const table = await this.#open(key)
    if (op.op === 'add-table' || op.op === 'create-table') {
      if (table !== undefined) return { errno: op.op === 'add-table' ? 0 : EEXIST }
      this.#tables.set(name, PlannedNftTable.empty(op.table, this.#real))
      return { errno: 0 }
    }
    if (table === undefined) return { errno: ENOENT }
    if (op.op === 'delete-table') {
      this.#tables.set(name, undefined)
      return { errno: 0 }
    }
    if (op.op === 'flush-table') {
      table.flush()
      return { errno: 0 }
    }
    if ('rule' in op) await table.rules(op.rule.chain)
    return table.apply(op)
  }

  /** The table to write to, read from the kernel if the plan has not written it yet. */
  async #open(key: NfTableKey): Promise<PlannedNftTable | undefined> {
    const name = describeTable(key)
    if (this.#tables.has(name)) return this.#tables.get(name)
    const state = this.#isLoaded
      ? (await this.#real.tables(key.family)).find(({ table }) => table === key.table)
      : undefined
    if (state === undefined) return undefined
    const read = await PlannedNftTable.read(state, this.#real)
    this.#tables.set(name, read)
    return read
  }

  async #isAbsent(key: NfTableKey): Promise<boolean> {
    return !(await this.tables(key.family)).some(({ table }) => table === key.table)
  }

  /** The kernel's objects in tables that the plan has not written. */
  async #kernel<T extends NfTableKey>(
    { family, table }: NfScope,
    read: () => Promise<readonly T[]>,
  ): Promise<readonly T[]> {
    if (!this.#isLoaded) return []
    if (table !== undefined && this.#tables.has(describeTable({ family, table }))) return []
    return (await read()).filter((object) => !this.#tables.has(describeTable(object)))
  }

  /** The tables of the scope that the plan has written. */
  #planned({ family, table }: NfScope): readonly PlannedNftTable[] {
    return [...this.#tables.values()]
      .filter((each) => each !== undefined)
      .filter(({ state }) => state.family === family && (table === undefined || state.table === table))
  }
}

function keyOf(op: NfOp): NfTableKey {
  if ('table' in op) return op.table
  if ('chain' in op) return op.chain
  if ('rule' in op) return op.rule
  if ('set' in op) return op.set
  return 'elements' in op ? op.elements.set : op.counter
}

function absent(operation: string, object: string): KernelError {
  return new KernelError({ errno: ENOENT, subsystem: 'nftables', operation, object })
}
