// What the kernel may have otherwise than acknowledged.
import type { NftChange, NfTableKey } from '../../../kernel/index.js'

/** Parts of the table that another program may have changed since they were read. */
export class Suspects {
  readonly #table: NfTableKey
  /** Everything. */
  isAll = true
  readonly sets = new Set<string>()
  /** Chains whose rules may differ. */
  readonly chains = new Set<string>()
  /** Sets or chains may have come or gone. */
  hasObjects = false
  /** The ruleset's generation up to which every change is known. 0: none is. */
  #generation = 0
  /** Generations that are known beyond it. */
  readonly #later = new Set<number>()

  constructor(table: NfTableKey) {
    this.#table = table
  }

  get isNone(): boolean {
    return !this.isAll && !this.hasObjects && this.sets.size === 0 && this.chains.size === 0
  }

  /** True: a change is about our table. */
  note(changes: readonly NftChange[]): boolean {
    let isOurs = false
    for (const change of changes) {
      if (change.kind === 'overrun') {
        this.suspectAll()
        isOurs = true
        continue
      }
      for (const { family, table, kind, name } of change.objects) {
        if (family !== this.#table.family || table !== this.#table.table) continue
        isOurs = true
        if (kind === 'table') this.suspectAll()
        if (kind === 'chain' || kind === 'set') this.hasObjects = true
        if (kind === 'chain' || kind === 'rules') this.chains.add(name)
        if (kind === 'set' || kind === 'elements') this.sets.add(name)
      }
      this.noteGeneration(change.generation)
    }
    return isOurs
  }

  suspectAll(): void {
    this.isAll = true
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

  /** Everything was read at this generation. */
  settleAll(generation: number): void {
    this.settle()
    this.isAll = false
    this.#generation = generation
    for (const later of this.#later) if (later <= generation) this.#later.delete(later)
    while (this.#later.delete(this.#generation + 1)) this.#generation++
  }

  /** The named parts were read. */
  settle(): void {
    this.sets.clear()
    this.chains.clear()
    this.hasObjects = false
  }
}
