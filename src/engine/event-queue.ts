import { type ObjectChange, objectOf } from '../source/index.js'

/** Changes that wait, at most one per object: the newest one replaces the one that waits, and takes its place. */
export class EventQueue {
  /** By object, oldest first. */
  readonly #changes = new Map<string, ObjectChange>()
  /**
   * Where the next change is taken; undefined: at the first one. NB: kept between calls, since a new iterator passes over the places of all
   * entries that were deleted.
   */
  #next: MapIterator<[string, ObjectChange]> | undefined

  /** Number of objects with a change that waits. */
  get size(): number {
    return this.#changes.size
  }

  /** Returns the change that this one replaces; undefined: none of its object waited. */
  put(change: ObjectChange): ObjectChange | undefined {
    const object = objectOf(change)
    const replaced = this.#changes.get(object)
    this.#changes.set(object, change)
    return replaced
  }

  /** Removes and returns the oldest changes, at most `count`. */
  take(count: number): readonly ObjectChange[] {
    const taken: ObjectChange[] = []
    while (taken.length < count && this.#changes.size > 0) {
      this.#next ??= this.#changes.entries()
      const { done, value } = this.#next.next()
      if (done === true) {
        this.#next = undefined
        continue
      }
      const [object, change] = value
      this.#changes.delete(object)
      taken.push(change)
    }
    return taken
  }
}
