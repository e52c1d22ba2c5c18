// Sets that are made, replaced or exchanged before entries can be added to them. An exchange replaces a set that is too small or has other
// settings: a second set gets all of its entries, and then its name.
import type { IpFamily } from '../../../address.js'
import type { BatchOutcome, IpsetOp, IpsetSettings } from '../../../kernel/index.js'
import { markOf, type Member, type SetState } from './ipset-set.js'

/** Operations on sets, and the effect of each. */
export interface SetBatch {
  readonly ops: readonly IpsetOp[]
  readonly steps: readonly SetStep[]
}

/** Makes the sets of one family fit for their entries. */
export class SetChanges {
  readonly #family: IpFamily
  readonly #sets: readonly SetState[]
  #exchange: SetExchange | undefined

  constructor(family: IpFamily, sets: readonly SetState[]) {
    this.#family = family
    this.#sets = sets
  }

  /** The next operations, about `limit` at most; empty: the sets fit, or the kernel refuses them. */
  plan(limit: number): SetBatch {
    const steps: SetStep[] = []
    for (const set of this.#sets) {
      if (set.failure !== undefined || set.isStale) continue
      if (set.need === 'replace') steps.push(removal(set))
      if (set.need === 'create' || set.need === 'replace') steps.push(creation(set))
    }
    if (steps.length > 0) return batchOf(steps)
    this.#exchange ??= this.#nextExchange()
    return batchOf(this.#exchange?.plan(limit) ?? [])
  }

  /** Takes in what the kernel accepted. */
  confirm({ steps }: SetBatch, { failures }: BatchOutcome): void {
    const failureOf = new Map(failures.map((failure) => [failure.index, failure]))
    let isRefused = false
    for (const [index, step] of steps.entries()) {
      const failure = failureOf.get(index)
      if (failure === undefined) step.done()
      else if (step.op.op !== 'destroy-set' || failure.error.code !== 'ENOENT') {
        isRefused = true
        step.set.noteFailure(failure, 0)
      }
    }
    const exchange = this.#exchange
    if (exchange?.set !== steps[0]?.set) return
    exchange?.confirm({ isRefused })
    if (exchange?.isDone === true) this.#exchange = undefined
  }

  /** Gives up an unfinished exchange of this set, or of any set. */
  giveUp(set?: SetState): void {
    if (set === undefined || this.#exchange?.set === set) this.#exchange?.giveUp()
  }

  #nextExchange(): SetExchange | undefined {
    for (const set of this.#sets) {
      const isFree = set.failure === undefined && !set.isStale
      if (isFree && set.need === 'exchange') return new SetExchange(set, this.#family)
    }
    return undefined
  }
}

function creation(set: SetState): SetStep {
  const { settings } = set
  return { set, op: { op: 'create-set', set: settings }, done: () => set.made(settings) }
}

/** Removes another program's set. It cannot be exchanged for a set with other content. */
function removal(set: SetState): SetStep {
  const gone = (): void => {
    set.see(undefined)
    set.loseEntries()
  }
  return { set, op: { op: 'destroy-set', name: set.name }, done: gone }
}

function batchOf(steps: readonly SetStep[]): SetBatch {
  return { steps, ops: steps.map(({ op }) => op) }
}

/** One operation on a set, and its effect. */
interface SetStep {
  readonly op: IpsetOp
  /** Gets the problem when the kernel refuses. */
  readonly set: SetState
  /** Enters the operation, which the kernel accepted. */
  readonly done: () => void
}

/** Name of the second set. It belongs to one set at a time, and exists only during an exchange. */
export function standInName(family: IpFamily): string {
  return `viaduct-${family}-swap`
}

/** The steps of an exchange go in consecutive batches, as no operation of a batch waits for the success of another. */
type Phase = 'make' | 'fill' | 'swap' | 'clear' | 'stuck' | 'done'

/**
 * Exchanges one set. Packets always meet a complete set under its name. Missing entries are added afterwards, where one entry that
 * the kernel refuses does not stop the others.
 */
class SetExchange {
  readonly set: SetState
  readonly #settings: IpsetSettings
  readonly #standIn: IpsetSettings
  readonly #members: readonly Member[]
  #phase: Phase = 'make'
  #copied = 0
  /** The last steps had no answer: their effect is unknown, and the exchange starts again. */
  #isUnanswered = false

  constructor(set: SetState, family: IpFamily) {
    this.set = set
    this.#settings = set.settings
    this.#standIn = { ...this.#settings, name: standInName(family) }
    this.#members = [...set.members.values()].filter(({ isAcknowledged }) => isAcknowledged)
  }

  get isDone(): boolean {
    return this.#phase === 'done'
  }

  /** The next operations, at most `limit`. */
  plan(limit: number): readonly SetStep[] {
    if (this.#isUnanswered) {
      this.#phase = 'make'
      this.#copied = 0
    }
    const steps = this.#steps(limit)
    this.#isUnanswered = steps.length > 0
    return steps
  }

  /** The kernel answered all operations; `isRefused`: at least one failed. */
  confirm({ isRefused }: { readonly isRefused: boolean }): void {
    this.#isUnanswered = false
    if (this.#phase === 'clear') this.#phase = isRefused ? 'stuck' : 'done'
    else this.#phase = isRefused ? 'clear' : this.#next()
  }

  /** Gives up an unfinished exchange, and tries again to remove the second set. */
  giveUp(): void {
    this.#isUnanswered = false
    this.#phase = 'clear'
  }

  #next(): Phase {
    if (this.#phase === 'swap') return 'clear'
    return this.#copied < this.#members.length ? 'fill' : 'swap'
  }

  #steps(limit: number): readonly SetStep[] {
    const { set } = this
    const { name } = this.#standIn
    const clear: SetStep = { set, op: { op: 'destroy-set', name }, done: nothingFollows }
    switch (this.#phase) {
      case 'make':
        return [clear, { set, op: { op: 'create-set', set: this.#standIn }, done: nothingFollows }]
      case 'fill': {
        const members = this.#members.slice(this.#copied, this.#copied + limit)
        this.#copied += members.length
        return members.map(({ entry }) => ({
          set,
          op: { op: 'add-entry', set: this.#standIn, entry },
          done: nothingFollows,
        }))
      }
      case 'swap':
        return [{ set, op: { op: 'swap-sets', name: set.name, other: name }, done: () => this.#swapped() }]
      case 'clear':
        return [clear]
      case 'stuck':
      case 'done':
        return []
    }
  }

  #swapped(): void {
    this.set.made(this.#settings)
    for (const member of this.#members) {
      member.acknowledged = markOf(member.entry)
      this.set.noteAnswer(member)
    }
  }
}

function nothingFollows(): void {}
