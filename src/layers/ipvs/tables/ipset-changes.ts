// Sets that are made, replaced or exchanged before entries can be added to them.
import type { IpFamily } from '../../../address.js'
import type { BatchOutcome, IpsetOp } from '../../../kernel/index.js'
import { SetExchange, type SetStep } from './ipset-exchange.js'
import type { SetState } from './ipset-set.js'

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
