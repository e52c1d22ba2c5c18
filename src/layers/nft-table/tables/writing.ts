// One write of a table: its objects in transactions of bounded size, which the kernel takes one after the other. It plans one
// transaction while the kernel works on the one before.
import { constants } from 'node:os'
import type { Clock } from '../../../clock.js'
import type { Pass } from '../../../engine/index.js'
import { KernelError } from '../../../errors.js'
import type { NfOp, NfOutcome } from '../../../kernel/index.js'
import type { AffinityCleaner } from './affinity.js'
import type { ElementOp, ElementOwner } from './element-batch.js'
import type { FrontendEntry, HeldEntry } from './entries.js'
import type { FrontendPlanner } from './frontend-elements.js'
import { isPublished, isSameState } from './frontend-state.js'
import type { HeldSet } from './ledger.js'
import { nftOperations, SentOperations } from './operations.js'
import type { TableState } from './state.js'
import type { StructureOps } from './structure-state.js'
import type { TableSender } from './table-sender.js'
import { targetOf, TransactionPlan } from './transaction-plan.js'

/** Elements of a transaction, and those of one frontend more. */
export const elementLimits = {
  /** A write in one transaction: other writers wait for the kernel, at most 100 ms. */
  whole: 32_000,
  /** A write in parts: the kernel works on one part while the next one is planned. */
  part: 8000,
} as const

/** Why the kernel refused a transaction. */
export interface Refusal {
  /** Objects of the refused elements, each with an error. */
  readonly owners: ReadonlyMap<ElementOwner, KernelError>
  /** Something exists that should not, or the other way round: another program changed the table. */
  readonly isDrift: boolean
}

export interface WritingOptions {
  readonly sender: TableSender
  readonly clock: Clock
  readonly state: TableState
  readonly affinity: AffinityCleaner
  readonly planner: FrontendPlanner
  readonly pass: Pass
  /** The number of elements with which a transaction is full. */
  readonly mostElements: number
  /** True: no further transaction is sent. */
  readonly isStopping: () => boolean
}

/** A transaction, in the order of its operations. */
interface Transaction {
  readonly first: readonly NfOp[]
  readonly elements: readonly ElementOp[]
  readonly last: readonly NfOp[]
}

const existence: ReadonlySet<string> = new Set(['ENOENT', 'EEXIST'])

export class Writing {
  readonly #options: WritingOptions
  readonly #structure: StructureOps
  #plan: TransactionPlan
  #isBegun = false
  #refusal: Refusal | undefined
  /** The last transaction that was sent. */
  #sent: TransactionPlan | undefined
  /** Settles when its outcome is in the acknowledged state. */
  #inFlight: Promise<void> = Promise.resolve()

  constructor(options: WritingOptions) {
    this.#options = options
    const { structure } = options.state
    this.#structure = structure.plan({ isForeign: structure.isForeign })
    this.#plan = this.#newPlan()
  }

  /** Why the kernel refused a transaction; undefined: it refused none, or its answer was lost. */
  get refusal(): Refusal | undefined {
    return this.#refusal
  }

  /** The sets, and the chains that no packet enters yet, in a transaction of their own. */
  async writeStructure(): Promise<void> {
    await this.#send([])
  }

  /** Deletes elements that belong to no object. They are known until the kernel has deleted them. */
  async writeStrays(): Promise<void> {
    const { state, isStopping } = this.#options
    for (const [name, { set, keys }] of state.strays) {
      for (const key of keys) {
        if (isStopping()) return
        this.#plan.elements.remove(set, undefined, { key })
        if (this.#isFull) await this.#sendFull()
      }
      this.#plan.strays.push(name)
    }
  }

  /** The endpoints of frontends that no packet meets yet, in transactions of their own. */
  async writeData(frontends: readonly FrontendEntry[]): Promise<void> {
    const { state, isStopping } = this.#options
    const { endpointBytes } = state.ledger.packer
    for (const entry of frontends) {
      if (isStopping()) return
      const { acknowledged } = entry
      if (isPublished(acknowledged)) continue
      const { endpoints, shortCircuit } = targetOf(entry, endpointBytes)
      const data = { ...acknowledged, endpoints, shortCircuit }
      if (isSameState(data, acknowledged)) continue
      this.#plan.addFrontend(entry, data)
      if (this.#isFull) await this.#sendFull()
    }
    if (this.#plan.size > 0) await this.#send([])
  }

  async writeFrontends(frontends: readonly FrontendEntry[]): Promise<void> {
    const { state, isStopping } = this.#options
    const { endpointBytes } = state.ledger.packer
    for (const entry of frontends) {
      if (isStopping()) return
      // The plan needs the acknowledged state.
      if (this.#sent?.hasFrontend(entry) === true) await this.settled()
      this.#plan.addFrontend(entry, targetOf(entry, endpointBytes))
      if (this.#isFull) await this.#sendFull()
    }
  }

  async writeHeld(of: HeldSet, entries: readonly HeldEntry[]): Promise<void> {
    for (const entry of entries) {
      if (this.#options.isStopping()) return
      this.#plan.addHeld(of, entry)
      if (this.#isFull) await this.#sendFull()
    }
  }

  /** The last transaction, with what makes the elements serve. False: the write was stopped, and nothing more was sent. */
  async end(): Promise<boolean> {
    const { structure, staticSets } = this.#options.state
    const known = new Set(structure.sets.map(({ set }) => set))
    const isNew = (name: string): boolean =>
      this.#structure.first.some((op) => op.op === 'add-set' && op.set.set === name)
    const fixed = staticSets.filter(({ set }) => known.has(set.set))
    const content = fixed.flatMap((each) => each.plan({ isNew: isNew(each.set.set) && !this.#isBegun }))
    if (!(await this.#send([...content, ...this.#structure.last]))) return false
    await this.settled()
    for (const each of fixed) each.confirm()
    return true
  }

  /** Resolves when no transaction is in flight. Throws the KernelError of the one that was not applied. */
  async settled(): Promise<void> {
    await this.#options.pass.stages.inKernel(async () => await this.#inFlight)
  }

  /** The plan is as much as a transaction takes. */
  get #isFull(): boolean {
    return this.#plan.size >= this.#options.mostElements
  }

  async #sendFull(): Promise<void> {
    await this.#send([])
    await this.#options.clock.pause()
  }

  /**
   * Sends what is planned as soon as the kernel has taken the transaction before, and does not wait for the answer. False: the
   * write was stopped.
   */
  async #send(last: readonly NfOp[]): Promise<boolean> {
    const plan = this.#plan
    const transaction = {
      first: this.#isBegun ? [] : this.#structure.first,
      elements: plan.elements.ops(),
      last,
    }
    // After a refusal nothing more is sent: the plan may need what was refused.
    await this.settled()
    if (this.#options.isStopping()) return false
    this.#sent = plan
    this.#inFlight = this.#commit(plan, transaction)
    // `settled` throws this failure too.
    this.#inFlight.catch(() => undefined)
    this.#isBegun = true
    this.#plan = this.#newPlan()
    return true
  }

  async #commit(plan: TransactionPlan, transaction: Transaction): Promise<void> {
    const { state, affinity, pass } = this.#options
    const { first, elements, last } = transaction
    const ops = [...first, ...elements.map(({ op }) => op), ...last]
    if (ops.length > 0) await this.#apply(transaction, ops)
    pass.stages.plan(() => {
      state.structure.confirm(ops)
      plan.confirm()
      for (const name of plan.strays) state.strays.delete(name)
      affinity.note(plan.losses)
    })
  }

  async #apply(transaction: Transaction, ops: readonly NfOp[]): Promise<void> {
    const { sender, state, pass } = this.#options
    const outcome = await sender.apply(ops)
    const [failure] = outcome.failures
    if (outcome.state === 'applied') {
      pass.count(nftOperations, new SentOperations(ops), { applied: ops.length, failures: [] })
      return
    }
    if (outcome.state === 'refused') this.#refusal = refusalOf(transaction, outcome)
    else state.staleParts.markAllStale()
    throw failure?.error ?? lostAnswer()
  }

  #newPlan(): TransactionPlan {
    return new TransactionPlan(this.#options.state.ledger, this.#options.planner)
  }
}

function refusalOf({ first, elements }: Transaction, { failures }: NfOutcome): Refusal {
  const owners = new Map<ElementOwner, KernelError>()
  for (const { operation = -1, element, error } of failures) {
    const op = elements[operation - first.length]
    // Without an index from the kernel, only an operation with one element names its object.
    const owner = op?.owners[element ?? (op.owners.length === 1 ? 0 : -1)]
    if (owner !== undefined) owners.set(owner, error)
  }
  return {
    owners,
    isDrift: failures.some(({ error }) => existence.has(error.code)),
  }
}

function lostAnswer(): KernelError {
  const operation = 'commit nf_tables transaction'
  return new KernelError({ errno: constants.errno.ENOBUFS, subsystem: 'nftables', operation })
}
