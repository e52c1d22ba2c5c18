// A set that is too small, or made otherwise than ours: one beside it gets everything that it has, and then its name.
import type { IpFamily } from '../../../address.js'
import type { IpsetOp, IpsetSettings } from '../../../kernel/index.js'
import { type Member, markOf } from './ipset-entry.js'
import type { SetState } from './ipset-set.js'

/** One operation on a set, and what follows from it. */
export interface SetStep {
  readonly op: IpsetOp
  /** Gets the problem when the kernel refuses. */
  readonly set: SetState
  /** Enters the operation, which the kernel accepted. */
  readonly done: () => void
}

/** Beside which set it stands changes; it is there for the time of one exchange. */
export function standInName(family: IpFamily): string {
  return `viaduct-${family}-swap`
}

/** Its steps go in batches that follow each other, as no operation of a batch waits for the success of another. */
type Phase = 'make' | 'fill' | 'swap' | 'clear' | 'stuck' | 'done'

/**
 * The set itself is whole all the time: packets meet it, then the one that has its name. What is not in it yet is added
 * afterwards, where a single entry that the kernel refuses stops nothing.
 */
export class SetExchange {
  readonly set: SetState
  readonly #settings: IpsetSettings
  readonly #standIn: IpsetSettings
  readonly #members: readonly Member[]
  #phase: Phase = 'make'
  #copied = 0
  /** Its last steps were never answered: what they did is not known, and all begins anew. */
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

  /** What comes next, at most so many operations. */
  plan(limit: number): readonly SetStep[] {
    if (this.#isUnanswered) {
      this.#phase = 'make'
      this.#copied = 0
    }
    const steps = this.#steps(limit)
    this.#isUnanswered = steps.length > 0
    return steps
  }

  /** The kernel answered all of them; `isRefused`: not each as it was asked. */
  confirm({ isRefused }: { readonly isRefused: boolean }): void {
    this.#isUnanswered = false
    if (this.#phase === 'clear') this.#phase = isRefused ? 'stuck' : 'done'
    else this.#phase = isRefused ? 'clear' : this.#next()
  }

  /** Gives up what is half done, and tries again to be rid of the set beside. */
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
