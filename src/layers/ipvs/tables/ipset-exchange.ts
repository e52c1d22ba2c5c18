// Replaces a set that is too small or has other settings: a second set gets all of its entries, and then its name.
import type { IpFamily } from '../../../address.js'
import type { IpsetOp, IpsetSettings } from '../../../kernel/index.js'
import { markOf, type Member, type SetState } from './ipset-set.js'

/** One operation on a set, and its effect. */
export interface SetStep {
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
export class SetExchange {
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
