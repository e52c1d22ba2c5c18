// Removes what our table does not need: what a former owner left, and what no frontend needs any more.
import type { Clock } from '../../../clock.js'
import type { Pass } from '../../../engine/index.js'
import { isNotFound, type KernelError } from '../../../errors.js'
import type { NfOp, NfOutcome, NfTransaction } from '../../../kernel/index.js'
import { nftOperations, SentOperations } from './transaction.js'
import type { TableContent } from './content.js'
import type { UnknownObjects } from './structure-state.js'

/** Operations of a transaction: the kernel deletes a thousand chains in some milliseconds. */
const opsPerTransaction = 1000

/**
 * An object stays as it is for this long after the last rule or element that led to it: the kernel does not wait for packets that are on
 * their way, and a chain that is empty when one arrives translates nothing. A packet takes microseconds.
 */
const restMs = 1000

export interface CleanUpOptions {
  /** Sends a transaction of the table. */
  readonly send: (transaction: NfTransaction) => Promise<NfOutcome>
  readonly clock: Clock
  readonly content: TableContent
}

/** The removal of objects that the structure does not have, each some time after it was noticed. At first, there is nothing to do. */
export class CleanUp {
  readonly #options: CleanUpOptions
  /** Such objects may have come that have no time yet. */
  #isNew = false
  /** The time of the first run that found the object, by kind and name; the earliest comes first. */
  readonly #sinceMs = new Map<string, number>()

  constructor(options: CleanUpOptions) {
    this.#options = options
  }

  /** The structure may lack objects that the table has. */
  note(): void {
    this.#isNew = true
  }

  /** Another program changed rules or elements: they may have led to these objects, until the write that follows. */
  restart(): void {
    this.#isNew ||= this.#sinceMs.size > 0
    this.#sinceMs.clear()
  }

  /**
   * Milliseconds until a run is due; undefined: there is nothing to remove. While another program's changes are unread, rules of its own may
   * lead to these objects.
   */
  nextInMs(): number | undefined {
    if (!this.#options.content.staleParts.isNone) return undefined
    if (this.#isNew) return 0
    const [earliestMs] = this.#sinceMs.values()
    if (earliestMs === undefined) return undefined
    return Math.max(0, earliestMs + restMs - this.#options.clock.now())
  }

  /**
   * Removes what is due. The table must have the rules and elements of the structure, which lead to none of these objects. Returns the
   * errors of those that stay for now: until Linux 6.2 a chain counts as in use for a while after the deletion of an element that leads
   * to it. Throws KernelError when the kernel refuses everything.
   */
  async run(pass: Pass): Promise<readonly KernelError[]> {
    const { content } = this.#options
    // Packets enter a base chain without a rule of ours, and what it leads to stays until they have left.
    const { baseChains } = content.unknown
    const errors = await this.#remove({ sets: [], chains: baseChains, counters: [] }, pass)
    this.#noteTimes(content.unknown)
    this.#isNew = false
    errors.push(...(await this.#remove(this.#due(content.unknown), pass)))
    this.#noteTimes(content.unknown)
    return errors
  }

  #noteTimes(unknown: UnknownObjects): void {
    const nowMs = this.#options.clock.now()
    const names = new Set(kinds.flatMap((kind) => unknown[kind].map((name) => keyOf(kind, name))))
    for (const name of this.#sinceMs.keys()) if (!names.has(name)) this.#sinceMs.delete(name)
    for (const name of names) if (!this.#sinceMs.has(name)) this.#sinceMs.set(name, nowMs)
  }

  #due(unknown: UnknownObjects): UnknownObjects {
    const untilMs = this.#options.clock.now() - restMs
    const due = (kind: Kind): readonly string[] =>
      unknown[kind].filter((name) => (this.#sinceMs.get(keyOf(kind, name)) ?? Infinity) <= untilMs)
    return { sets: due('sets'), baseChains: [], chains: due('chains'), counters: due('counters') }
  }

  async #remove(
    { sets, chains, counters }: Omit<UnknownObjects, 'baseChains'>,
    pass: Pass,
  ): Promise<KernelError[]> {
    const { table } = this.#options.content
    const chainOps = (op: 'flush-chain' | 'delete-chain'): readonly NfOp[] =>
      chains.map((chain) => ({ op, chain: { ...table, chain } }))
    // Rules use sets and counters, elements lead to chains, and rules do.
    const steps: readonly (readonly NfOp[])[] = [
      chainOps('flush-chain'),
      sets.map((set) => ({ op: 'delete-set', set: { ...table, set } })),
      chainOps('delete-chain'),
      counters.map((counter) => ({ op: 'delete-counter', counter: { ...table, counter } })),
    ]
    const errors: KernelError[] = []
    for (const step of steps) {
      for (let from = 0; from < step.length; from += opsPerTransaction)
        errors.push(...(await this.#apply(step.slice(from, from + opsPerTransaction), pass)))
    }
    return errors
  }

  /** Sends the operations, once more without those that are refused. */
  async #apply(ops: readonly NfOp[], pass: Pass): Promise<readonly KernelError[]> {
    const { send, content } = this.#options
    const { own, structure, staleParts, staticSets } = content
    const errors: KernelError[] = []
    for (let left = ops; left.length > 0;) {
      const { state, failures } = await send(left)
      if (state === 'applied') {
        pass.count(nftOperations, new SentOperations(left), { applied: left.length, failures: [] })
        for (const op of left) if (!own.confirmRemoved(op)) structure.confirm([op])
        for (const each of staticSets) if (!structure.hasSet(each.set)) each.read(undefined)
        return errors
      }
      const refused = new Set(failures.map(({ operation }) => operation))
      const [failure] = failures
      if (state === 'unknown' || refused.has(undefined) || failure === undefined) {
        staleParts.markUnknown()
        if (failure !== undefined) throw failure.error
        return errors
      }
      for (const { operation = -1, error } of failures) {
        const op = left[operation]
        // Another agent has removed it.
        if (!isNotFound(error) || op === undefined) errors.push(error)
        else if (!own.confirmRemoved(op)) structure.noteAbsent(op)
      }
      left = left.filter((_, index) => !refused.has(index))
    }
    return errors
  }
}

type Kind = keyof UnknownObjects

const kinds = ['sets', 'baseChains', 'chains', 'counters'] as const satisfies readonly Kind[]

function keyOf(kind: Kind, name: string): string {
  return `${kind} ${name}`
}
