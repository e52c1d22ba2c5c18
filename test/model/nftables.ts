import { constants } from 'node:os'
import type { IpFamily } from '../../src/address.js'
import { KernelError, linuxErrno } from '../../src/errors.js'
import { setAttributes } from '../../src/kernel/nftables/attributes.js'
import type { NftChange, NftChangedObject } from '../../src/kernel/nftables/changes.js'
import { nfError } from '../../src/kernel/nftables/decode-outcome.js'
import { describeSet } from '../../src/kernel/nftables/describe.js'
import { elementLayout, NfElements } from '../../src/kernel/nftables/elements.js'
import { translatesDestinations } from '../../src/kernel/nftables/nat-hook.js'
import type {
  NfApplyOptions,
  NfChainState,
  NfCounterState,
  NfDumpedElements,
  NfFailure,
  NfHookChain,
  NfOp,
  NfOutcome,
  NfRuleState,
  NfScope,
  NfTablePlace,
  NfSet,
  NfSetState,
  NfTableState,
  NfTransaction,
  Nftables,
  NftWatch,
} from '../../src/kernel/nftables/nftables.js'
import {
  elementKey,
  type ModelElement,
  type ModelNfChain,
  type ModelNfTable,
  ModelNftChanges,
  ModelNftNamespace,
} from './nft-objects.js'
import { type ModelRefusal, ModelNftTransaction } from './nft-transaction.js'

export interface NftFaultPlan {
  /** Called before each operation. A number is the errno of its refusal, which may be of one element. */
  readonly fault?: (op: NfOp) => number | ModelRefusal | undefined
  /** Called before each transaction. A number is the errno of its refusal as a whole. `lost`: not applied, and the answer is lost. */
  readonly transactionFault?: (transaction: NfTransaction) => number | 'lost' | undefined
  /** Called before a dump that is made once. A number interrupts it: so many of the first elements are missing. */
  readonly hiddenElements?: (set: NfSet) => number | undefined
}

/** Nftables in memory: one socket's view of a namespace. */
export class ModelNftables implements Nftables {
  /** The current faults. Tests may replace them at any time. */
  plan: NftFaultPlan = {}
  /** All transactions so far, including refused ones, without dry runs. */
  readonly transactions: NfTransaction[] = []
  readonly namespace: ModelNftNamespace
  readonly #port: number
  readonly #watches = new Set<ModelNftWatch>()
  #isClosed = false

  constructor(namespace = new ModelNftNamespace()) {
    this.namespace = namespace
    this.#port = namespace.takePort()
  }

  async apply(transaction: NfTransaction, options: NfApplyOptions = {}): Promise<NfOutcome> {
    this.#enter('send nf_tables transaction')
    const { generation, isDryRun = false } = options
    if (!isDryRun) this.transactions.push(transaction)
    if (generation !== undefined && generation !== this.namespace.generation)
      return refused([{ error: nfError(transaction, -1, { errno: linuxErrno.ERESTART }) }])
    const fault = this.plan.transactionFault?.(transaction)
    if (fault !== undefined) return refusedAsWhole(transaction, fault)
    return this.#commit(transaction, isDryRun)
  }

  #commit(transaction: NfTransaction, isDryRun: boolean): NfOutcome {
    const changes = new ModelNftChanges()
    const work = new ModelNftTransaction(this.namespace, this.#port, changes)
    const failures = applyOps(transaction, work, this.plan)
    if (failures.length > 0 || isDryRun) changes.takeBack()
    if (failures.length > 0) return refused(failures)
    const { objects } = changes
    if (isDryRun || objects.length === 0) return { state: 'applied', failures: [], handles: new Map() }
    this.namespace.generation++
    for (const listener of this.namespace.listeners) listener(objects, this.#port)
    const [first] = transaction
    const isReported = first !== undefined && first.op !== 'delete-table' && first.op !== 'flush-table'
    const generation = isReported ? { generation: this.namespace.generation } : {}
    return { state: 'applied', ...generation, failures: [], handles: work.handles }
  }

  async generation(): Promise<number> {
    this.#enter('read nf_tables generation')
    return this.namespace.generation
  }

  async tables(family: IpFamily): Promise<readonly NfTableState[]> {
    this.#enter('dump nf_tables tables')
    return [...this.namespace.tables[family].values()].map(({ state }) => state)
  }

  async chains(scope: NfScope): Promise<readonly NfChainState[]> {
    this.#enter('dump nf_tables chains')
    return this.#tablesOf(scope).flatMap(({ chains }) =>
      [...chains.values()].map(({ chain, handle }) => ({ ...chain, handle })),
    )
  }

  async rules(scope: NfScope & { readonly chain?: string }): Promise<readonly NfRuleState[]> {
    this.#enter('dump nf_tables rules')
    const tables = this.#tablesOf(scope)
    const { chain } = scope
    if (chain !== undefined) return tables.flatMap(({ chains }) => chains.get(chain)?.rules ?? [])
    return tables.flatMap(({ chains }) => [...chains.values()].flatMap(({ rules }) => rules))
  }

  async forwardChains(): Promise<readonly NfHookChain[]> {
    this.#enter('dump nf_tables chains')
    return (['ipv4', 'ipv6'] as const).flatMap((family) =>
      this.#tablesOf({ family }).flatMap(({ state, chains }) =>
        state.flags?.includes('dormant') === true
          ? []
          : [...chains.values()].flatMap((chain) => forwardChain(chain)),
      ),
    )
  }

  async tablesWithNat(family: IpFamily): Promise<readonly NfTablePlace[]> {
    this.#enter('dump nf_tables chains')
    return this.#tablesOf({ family })
      .filter(({ chains }) => [...chains.values()].some(({ chain }) => translatesDestinations(chain.hook)))
      .map(({ state: { table } }) => ({ family, table }))
  }

  async sets(scope: NfScope & { readonly set?: string }): Promise<readonly NfSetState[]> {
    this.#enter('dump nf_tables sets')
    const { family, table, set: name } = scope
    if (
      name !== undefined &&
      table !== undefined &&
      !this.namespace.tables[family].get(table)?.sets.has(name)
    )
      throw refusal('dump nf_tables sets', constants.errno.ENOENT, { family })
    if (table !== undefined && !this.namespace.tables[family].has(table))
      throw refusal('dump nf_tables sets', constants.errno.ENOENT, { family })
    return this.#tablesOf(scope).flatMap(({ sets }) =>
      [...sets.values()]
        .filter(({ set }) => name === undefined || set.set === name)
        .map(({ set, handle, elements }) => ({
          family: set.family,
          table: set.table,
          set: set.set,
          attributes: { ...setAttributes(set), handle, count: elements.size },
        })),
    )
  }

  async counters(scope: NfScope): Promise<readonly NfCounterState[]> {
    this.#enter('dump nf_tables counters')
    return this.#tablesOf(scope).flatMap(({ state, counters }) =>
      [...counters].map((counter) => ({
        family: state.family,
        table: state.table,
        counter,
        packets: 0,
        bytes: 0,
      })),
    )
  }

  async elements(set: NfSet): Promise<NfElements> {
    const elements = new NfElements(set)
    for (const element of this.#keptElements('dump nf_tables elements', set).values()) element.addTo(elements)
    return elements
  }

  async elementsOnce(set: NfSet): Promise<NfDumpedElements> {
    const elements = new NfElements(set)
    const kept = [...this.#keptElements('dump nf_tables elements', set).values()]
    const hidden = this.plan.hiddenElements?.(set)
    for (const element of kept.slice(hidden ?? 0)) element.addTo(elements)
    return { elements, isInterrupted: hidden !== undefined }
  }

  async elementsByKey(set: NfSet, keys: Uint8Array): Promise<NfElements> {
    const kept = this.#keptElements('read nf_tables elements by key', set)
    const elements = new NfElements(set)
    const { keyBytes } = elements.layout
    for (let at = 0; at < keys.length; at += keyBytes) {
      const key = keys.subarray(at, at + keyBytes)
      kept.get(elementKey({ key, keyEnd: key, isIntervalEnd: false }))?.addTo(elements)
    }
    return elements
  }

  #keptElements(operation: string, set: NfSet): ReadonlyMap<string, ModelElement> {
    const subject = { family: set.family, object: describeSet(set) }
    this.#enter(operation)
    const kept = this.namespace.tables[set.family].get(set.table)?.sets.get(set.set)
    if (kept === undefined) throw refusal(operation, constants.errno.ENOENT, subject)
    const isOther = JSON.stringify(elementLayout(kept.set)) !== JSON.stringify(elementLayout(set))
    if (isOther && kept.elements.size > 0) throw refusal(operation, constants.errno.EPROTO, subject)
    return kept.elements
  }

  watch(): NftWatch {
    this.#enter('use a closed socket')
    const watch = new ModelNftWatch(this.namespace, this.#port, () => this.#watches.delete(watch))
    this.#watches.add(watch)
    return watch
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#watches].map((watch) => watch.close()))
    this.namespace.release(this.#port)
  }

  #tablesOf({ family, table }: NfScope): readonly ModelNfTable[] {
    const tables = this.namespace.tables[family]
    if (table === undefined) return [...tables.values()]
    const found = tables.get(table)
    return found === undefined ? [] : [found]
  }

  #enter(operation: string): void {
    if (this.#isClosed) throw refusal(operation, constants.errno.EBADF)
  }
}

function refusal(
  operation: string,
  errno: number,
  subject: { readonly family?: IpFamily; readonly object?: string } = {},
): KernelError {
  return new KernelError({ errno, subsystem: 'nftables', operation, ...subject })
}

function refused(failures: readonly NfFailure[]): NfOutcome {
  return { state: 'refused', failures, handles: new Map() }
}

function refusedAsWhole(transaction: NfTransaction, fault: number | 'lost'): NfOutcome {
  const errno = fault === 'lost' ? constants.errno.ENOBUFS : fault
  const outcome = refused([{ error: nfError(transaction, -1, { errno }) }])
  return fault === 'lost' ? { ...outcome, state: 'unknown' } : outcome
}

/** Applies every operation, also after a refused one, as the kernel does. */
function applyOps(
  transaction: NfTransaction,
  work: ModelNftTransaction,
  plan: NftFaultPlan,
): readonly NfFailure[] {
  const failures: NfFailure[] = []
  for (const [operation, op] of transaction.entries()) {
    const fault = plan.fault?.(op)
    const found = (typeof fault === 'number' ? { errno: fault } : fault) ?? work.apply(op, operation)
    if (found === undefined) continue
    const { errno, ...element } = found
    failures.push({ operation, ...element, error: nfError(transaction, operation, { errno }) })
  }
  return failures
}

class ModelNftWatch implements NftWatch {
  readonly #end: () => void
  #queue: NftChange[] = []
  #wake: (() => void) | undefined
  #isClosed = false

  constructor(namespace: ModelNftNamespace, port: number, forget: () => void) {
    const listener = (objects: readonly NftChangedObject[], writer: number): void => {
      if (writer === port) return
      const { generation } = namespace
      this.#queue.push({ kind: 'transaction', generation, pid: writer, program: 'model', objects })
      this.#wake?.()
    }
    namespace.listeners.add(listener)
    this.#end = () => {
      namespace.listeners.delete(listener)
      forget()
    }
  }

  async next(): Promise<readonly NftChange[] | undefined> {
    while (this.#queue.length === 0 && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    if (this.#isClosed) return undefined
    const changes = this.#queue
    this.#queue = []
    return changes
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#end()
    this.#wake?.()
  }
}

function forwardChain({
  chain: { family, table, chain, hook },
  rules,
}: ModelNfChain): readonly NfHookChain[] {
  if (hook?.hook !== 'forward') return []
  const { policy = 'accept' } = hook
  return [{ family, table, chain, policy, rules: rules.map(({ expressions }) => expressions) }]
}
