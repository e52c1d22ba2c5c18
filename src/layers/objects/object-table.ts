/**
 * A kernel object as a table holds it. A kind of object adds its holders, the state that they desire, and its key. `State` is the
 * kernel's state of the object, absence included.
 */
export interface TrackedObject<Id, State> {
  readonly id: Id
  /** State in the kernel, as its answers and the last reading say. */
  acknowledged: State
  /** The acknowledged state may be wrong: nothing is planned for the object before the next reading. */
  isStale: boolean
  /** The reading that found the object last (`ObjectTable.see`). */
  seenIn: number
  /** Whether the table counts it as acknowledged. The table alone sets it. */
  isCounted: boolean
  /** The kernel has it. */
  readonly isAcknowledged: boolean
  /** No holder wants it, and the kernel does not have it. */
  readonly isUnused: boolean
  /** The kernel had it at the start, and no holder has claimed it. It stays until `ObjectTable.dropLeftovers`. */
  readonly isLeftover: boolean
  /** Ends the leftover state: an object that no holder wants is to be removed. */
  dropLeftover(): void
}

/** An object that is never a leftover: without a holder it is unwanted at once. */
export abstract class KernelObject<Id, State> implements TrackedObject<Id, State> {
  readonly id: Id
  acknowledged: State
  isStale = false
  isCounted = false
  seenIn = 0

  constructor(id: Id, acknowledged: State) {
    this.id = id
    this.acknowledged = acknowledged
  }

  abstract get isAcknowledged(): boolean
  abstract get isUnused(): boolean

  get isLeftover(): boolean {
    return false
  }

  dropLeftover(): void {}
}

/**
 * Kernel objects of one kind and family, by identity. The table knows which are dirty and which are leftovers. An object enters
 * with its first holder or with the reading that finds it, and leaves when it is unused. Work is proportional to the changes,
 * except in a reading and in `dropLeftovers`.
 */
export class ObjectTable<Id, T extends TrackedObject<Id, unknown>> {
  readonly #objects = new Map<Id, T>()
  #dirty = new Set<T>()
  #acknowledgedCount = 0
  #readings = 0
  #keepsLeftovers = false
  #sampling: Iterator<T> | undefined

  get size(): number {
    return this.#objects.size
  }

  get(id: Id): T | undefined {
    return this.#objects.get(id)
  }

  /** Every object, in the order of entry. */
  values(): IterableIterator<T> {
    return this.#objects.values()
  }

  /** Enters an object whose identity the table does not have. */
  add(object: T): T {
    this.#objects.set(object.id, object)
    return object
  }

  /** Objects whose acknowledged state may differ from the desired one. */
  get dirty(): ReadonlySet<T> {
    return this.#dirty
  }

  markDirty(object: T): void {
    this.#dirty.add(object)
  }

  markClean(object: T): void {
    this.#dirty.delete(object)
  }

  /** Returns the dirty objects and marks them clean: the caller brings them to the kernel. */
  takeDirty(): readonly T[] {
    const dirty = [...this.#dirty]
    this.#dirty = new Set()
    return dirty
  }

  /**
   * Takes in that the holders or the acknowledged state of an object changed: counts it, and forgets it when it is unused. NB: a
   * forgotten object may still be dirty, and another one may have its identity since.
   */
  settle(object: T): void {
    if (object.isAcknowledged !== object.isCounted) {
      object.isCounted = !object.isCounted
      this.#acknowledgedCount += object.isCounted ? 1 : -1
    }
    const isForgettable = object.isUnused && !object.isStale && this.#objects.get(object.id) === object
    if (isForgettable) this.#objects.delete(object.id)
  }

  /** Number of objects that the kernel has, as acknowledged. */
  get acknowledgedCount(): number {
    return this.#acknowledgedCount
  }

  /**
   * A dump of the kernel is about to be compared. `keepLeftovers` counts at the first one: objects of that dump that no holder
   * wants stay until `dropLeftovers`.
   */
  beginReading({ keepLeftovers }: { readonly keepLeftovers: boolean }): void {
    if (this.#readings === 0) this.#keepsLeftovers = keepLeftovers
    this.#readings++
  }

  /** False before the first reading: the acknowledged states have no meaning yet. */
  get isAdopted(): boolean {
    return this.#readings > 0
  }

  get isFirstReading(): boolean {
    return this.#readings === 1
  }

  /** The reading in progress found the object. */
  see(object: T): void {
    object.seenIn = this.#readings
  }

  /** Whether the last reading found the object. */
  isSeen(object: T): boolean {
    return object.seenIn === this.#readings
  }

  /** Whether `dropLeftovers` is due as soon as all Services are known. */
  get keepsLeftovers(): boolean {
    return this.#keepsLeftovers
  }

  /** All Services are known: a leftover that no holder has claimed is unwanted. Returns the leftovers, which are dirty now. Walks all, once. */
  dropLeftovers(): readonly T[] {
    if (!this.#keepsLeftovers) return []
    this.#keepsLeftovers = false
    const leftovers = [...this.#objects.values()].filter(({ isLeftover }) => isLeftover)
    for (const object of leftovers) {
      object.dropLeftover()
      this.#dirty.add(object)
    }
    return leftovers
  }

  /** Up to `count` acknowledged objects that are not stale, and the next ones at the next call: all in turn. */
  takeSample(count: number): readonly T[] {
    const sample: T[] = []
    // One step more than there are objects, for the wrap at the end: no object is taken twice.
    for (let left = this.#objects.size; left >= 0 && sample.length < count; left--) {
      this.#sampling ??= this.#objects.values()
      const { value: object, done } = this.#sampling.next()
      if (done === true) this.#sampling = undefined
      else if (object.isAcknowledged && !object.isStale) sample.push(object)
    }
    return sample
  }
}

/** The objects that each holder has claimed. */
export class Holdings<Holder, T> {
  readonly #held = new Map<Holder, readonly T[]>()

  /** The objects of the holder; empty: it has none. */
  heldBy(holder: Holder): readonly T[] {
    return this.#held.get(holder) ?? []
  }

  /** Replaces the objects of the holder; an empty list forgets the holder. Returns the former objects. */
  replace(holder: Holder, objects: readonly T[]): readonly T[] {
    const former = this.heldBy(holder)
    if (objects.length > 0) this.#held.set(holder, objects)
    else if (former.length > 0) this.#held.delete(holder)
    return former
  }

  /** Every holder with its objects. */
  entries(): IterableIterator<[Holder, readonly T[]]> {
    return this.#held.entries()
  }

  /** The holders of an object. Walks all. */
  holdersOf(object: T): readonly Holder[] {
    return [...this.#held].filter(([, objects]) => objects.includes(object)).map(([holder]) => holder)
  }
}

/** Differences in the kernel that another program made, by kind: `virtual-server-missing`, `set-entry-unexpected`. */
export type Drift<Kind extends string = string> = ReadonlyMap<Kind, number>

export class DriftCounter<Kind extends string> {
  readonly counts = new Map<Kind, number>()

  add(kind: Kind, count = 1): void {
    if (count > 0) this.counts.set(kind, (this.counts.get(kind) ?? 0) + count)
  }
}
