import { type ObjectChange, objectOf } from '../source/index.js'

/** Changes that wait, at most one per object: the newest one replaces the one that waits, and takes its place. */
export class EventQueue {
  /** By object, oldest first. */
  readonly #changes = new Map<string, ObjectChange>()

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
    for (const [object, change] of this.#changes) {
      if (taken.length >= count) break
      this.#changes.delete(object)
      taken.push(change)
    }
    return taken
  }
}
