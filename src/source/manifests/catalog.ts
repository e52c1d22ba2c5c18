import { isDeepStrictEqual } from 'node:util'
import type { KubernetesObject, ObjectEvent } from '../objects.js'
import type { KeyedObjects } from './document.js'

/** An object that several files have. */
export interface Conflict {
  /** `kind namespace/name`. */
  readonly object: string
  /** The file whose object is in force: the lexically first. */
  readonly winner: string
  readonly others: readonly string[]
}

/** One object and the files that define it. */
interface Holding {
  /** Paths of the files, in order. The object of the first is in force. */
  files: readonly string[]
  /** undefined: no object is in force yet. */
  inForce: KubernetesObject | undefined
}

const nothing: KeyedObjects = new Map()

/** Which file holds which objects, and which of them are in force. Pure: no file is touched here. */
export class Catalog {
  readonly #files = new Map<string, KeyedObjects>()
  /** Holdings by the keys of objects. */
  readonly #holdings = new Map<string, Holding>()
  /** Keys of objects that several files have. */
  readonly #contested = new Set<string>()

  /**
   * Takes over the new contents of files (undefined: the file has gone) as one change. Returns the differences to
   * the objects in force, and each object that several files have, or had until now (undefined).
   */
  apply(changes: ReadonlyMap<string, KeyedObjects | undefined>): {
    readonly events: readonly ObjectEvent[]
    readonly conflicts: ReadonlyMap<string, Conflict | undefined>
  } {
    const touched = new Map<string, Holding>()
    for (const [file, objects] of changes) this.#replaceFile(file, objects ?? nothing, touched)
    const events: ObjectEvent[] = []
    const conflicts = new Map<string, Conflict | undefined>()
    for (const [key, holding] of touched) {
      const event = this.#settle(key, holding)
      if (event !== undefined) events.push(event)
      const conflict = conflictOf(key, holding)
      if (conflict !== undefined) this.#contested.add(key)
      else if (!this.#contested.delete(key)) continue
      conflicts.set(key, conflict)
    }
    return { events, conflicts }
  }

  /** Whether objects of this file are known. */
  holds(file: string): boolean {
    return this.#files.has(file)
  }

  #replaceFile(file: string, after: KeyedObjects, touched: Map<string, Holding>): void {
    const before = this.#files.get(file) ?? nothing
    for (const key of before.keys()) {
      const holding = this.#holdings.get(key)
      if (holding === undefined) continue
      touched.set(key, holding)
      if (!after.has(key)) holding.files = holding.files.filter((holder) => holder !== file)
    }
    // Most objects are in one file only: they share its list.
    const alone = [file]
    for (const key of after.keys()) {
      let holding = this.#holdings.get(key)
      if (holding === undefined) this.#holdings.set(key, (holding = { files: alone, inForce: undefined }))
      else if (!before.has(key)) holding.files = [...holding.files, file].toSorted()
      touched.set(key, holding)
    }
    if (after.size === 0) this.#files.delete(file)
    else this.#files.set(file, after)
  }

  #settle(key: string, holding: Holding): ObjectEvent | undefined {
    const before = holding.inForce
    const [holder] = holding.files
    const after = holder === undefined ? undefined : this.#files.get(holder)?.get(key)
    holding.inForce = after
    if (after !== undefined) {
      if (before !== undefined && isDeepStrictEqual(before, after)) return undefined
      return { type: 'set', object: after }
    }
    this.#holdings.delete(key)
    if (before === undefined) return undefined
    const { kind, namespace, name } = before
    return { type: 'delete', kind, key: { namespace, name } }
  }
}

function conflictOf(key: string, { files }: Holding): Conflict | undefined {
  if (files.length < 2) return undefined
  const [winner = '', ...others] = files
  return { object: key, winner, others }
}
