// The parts of the table whose acknowledged state may be wrong.
import type { NftChange, NfTableKey } from '../../../kernel/index.js'

/** Parts of the table, by name. */
export interface PartsToRead {
  /** Everything. */
  readonly isAll: boolean
  readonly sets: ReadonlySet<string>
  /** Chains whose rules may differ. */
  readonly chains: ReadonlySet<string>
  /** Sets or chains may have come or gone. */
  readonly hasObjects: boolean
}

/** Parts of the table that another program may have changed since they were read. At first, everything. */
export class StaleParts {
  readonly #table: NfTableKey
  #isAll = true
  #hasObjects = false
  #sets = new Set<string>()
  #chains = new Set<string>()
  /** The ruleset's generation up to which every change is known. 0: none is. */
  #generation = 0
  #isUnknown = false
  #isMarked = false
  #isBeingRead = false
  /** Generations that are known beyond it. */
  readonly #later = new Set<number>()

  constructor(table: NfTableKey) {
    this.#table = table
  }

  /** Nothing is stale, and what was is compared. */
  get isNone(): boolean {
    return !this.#isBeingRead && !this.hasNew
  }

  /** Something is stale that no comparison has taken. */
  get hasNew(): boolean {
    return this.#isAll || this.#hasObjects || this.#sets.size + this.#chains.size > 0
  }

  /** It is unknown what the table has of a transaction of ours: everything is read before the next write. */
  get isUnknown(): boolean {
    return this.#isUnknown
  }

  /** A refusal, and no event, showed stale parts: a look is due. */
  get isMarked(): boolean {
    return this.#isMarked
  }

  /** A comparison of what was stale is in progress. */
  set isBeingRead(isBeingRead: boolean) {
    this.#isBeingRead = isBeingRead
  }

  /** True: a change is about our table. */
  note(changes: readonly NftChange[]): boolean {
    let isOurs = false
    for (const change of changes) {
      if (change.kind === 'overrun') {
        this.markAllStale()
        isOurs = true
        continue
      }
      for (const { family, table, kind, name } of change.objects) {
        if (family !== this.#table.family || table !== this.#table.table) continue
        isOurs = true
        if (kind === 'table') this.markAllStale()
        const isChain = kind === 'chain' || kind === 'chain-update'
        if (isChain || kind === 'set' || kind === 'counter') this.#hasObjects = true
        if (isChain || kind === 'rules') this.#chains.add(name)
        if (kind === 'set' || kind === 'elements') this.#sets.add(name)
      }
      this.noteGeneration(change.generation)
    }
    return isOurs
  }

  markAllStale(): void {
    this.#isAll = true
  }

  /** As markAllStale(), and `isUnknown`. */
  markUnknown(): void {
    this.#isAll = true
    this.#isUnknown = true
  }

  /** The kernel refused what it would have taken if it had what is acknowledged of this set. */
  markSet(name: string): void {
    this.#sets.add(name)
    this.#isMarked = true
  }

  /** The changes that led to this generation are known. */
  noteGeneration(generation: number): void {
    if (generation <= this.#generation) return
    this.#later.add(generation)
    while (this.#later.delete(this.#generation + 1)) this.#generation++
  }

  /** Whether every change up to this generation is known. */
  knows(generation: number): boolean {
    return generation !== 0 && generation === this.#generation
  }

  /** Everything is read now. The reading shows every change up to this generation, or more. */
  beginAll(generation: number): void {
    this.#generation = generation
    for (const later of this.#later) if (later <= generation) this.#later.delete(later)
    while (this.#later.delete(this.#generation + 1)) this.#generation++
  }

  /** The stale parts, which are read now: they are stale no more, unless they change meanwhile. */
  take(): PartsToRead {
    const taken = {
      isAll: this.#isAll,
      sets: this.#sets,
      chains: this.#chains,
      hasObjects: this.#hasObjects,
    }
    this.#isAll = false
    this.#isUnknown = false
    this.#isMarked = false
    this.#hasObjects = false
    this.#sets = new Set()
    this.#chains = new Set()
    return taken
  }
}
