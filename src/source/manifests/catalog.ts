import { isDeepStrictEqual } from 'node:util'
import type { KubernetesObject, ObjectEvent } from '../objects.js'
import { describeObject } from '../readers/read-object.js'
import type { FileObjects, KeyedObjects } from './document.js'

/** An object that several files have. */
export interface Conflict {
  /** `Service namespace/name`, `Node name`. */
  readonly object: string
  /** The file whose object is in force: the lexically first. */
  readonly winner: string
  readonly others: readonly string[]
}

/** One object and the files that define it. */
interface Holding {
  /** Paths of the files, in order. The object of the first is in force. */
  files: readonly string[]
  /** Files that name the object, have never had it, and cannot be used for it: it is not deleted while they do. */
  unclear: readonly string[]
  /** undefined: no object is in force yet. */
  inForce: KubernetesObject | undefined
}

const none: readonly string[] = []
const nothing: FileContents = { objects: new Map(), unclear: none }

/** The known contents of one file. */
interface FileContents {
  /** The objects as last read; of one that cannot be used now, the last usable state. */
  readonly objects: KeyedObjects
  /** Keys of the objects that the file names, and of which it has had no usable state. */
  readonly unclear: readonly string[]
}

/** Which file holds which objects, and which of them are in force. Pure: no file is touched here. */
export class Catalog {
  readonly #files = new Map<string, FileContents>()
  /** Holdings by the keys of objects. */
  readonly #holdings = new Map<string, Holding>()
  /** Keys of objects that several files have. */
  readonly #contested = new Set<string>()

  /**
   * Takes over the new contents of files (undefined: the file has gone) as one change. An object that cannot be used keeps its state;
   * of a file with a nameless one, every object does. Returns the differences to the objects in force, and each object that several
   * files have, or had until now (undefined).
   */
  apply(changes: ReadonlyMap<string, FileObjects | undefined>): {
    readonly events: readonly ObjectEvent[]
    readonly conflicts: ReadonlyMap<string, Conflict | undefined>
  } {
    const touched = new Map<string, Holding>()
    for (const [file, content] of changes) this.#replaceFile(file, content, touched)
    const events: ObjectEvent[] = []
    const conflicts = new Map<string, Conflict | undefined>()
    for (const [key, holding] of touched) {
      const event = this.#settle(key, holding)
      if (event !== undefined) events.push(event)
      const conflict = conflictOf(holding)
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

  #replaceFile(file: string, content: FileObjects | undefined, touched: Map<string, Holding>): void {
    const before = this.#files.get(file) ?? nothing
    const after = content === undefined ? nothing : retain(before, content)
    for (const key of [...before.objects.keys(), ...before.unclear]) {
      const holding = this.#holdings.get(key)
      if (holding === undefined) continue
      touched.set(key, holding)
      if (!after.objects.has(key)) holding.files = holding.files.filter((holder) => holder !== file)
      if (holding.unclear.length > 0) holding.unclear = holding.unclear.filter((namer) => namer !== file)
    }
    // Most objects are in one file only: they share its list.
    const alone = [file]
    for (const key of after.objects.keys()) {
      const holding = this.#hold(key, touched)
      if (holding.files.length === 0) holding.files = alone
      else if (!before.objects.has(key)) holding.files = [...holding.files, file].toSorted()
    }
    for (const key of after.unclear) {
      const holding = this.#hold(key, touched)
      holding.unclear = [...holding.unclear, file]
    }
    if (after.objects.size + after.unclear.length === 0) this.#files.delete(file)
    else this.#files.set(file, after)
  }

  #hold(key: string, touched: Map<string, Holding>): Holding {
    let holding = this.#holdings.get(key)
    if (holding === undefined) {
      holding = { files: none, unclear: none, inForce: undefined }
      this.#holdings.set(key, holding)
    }
    touched.set(key, holding)
    return holding
  }

  #settle(key: string, holding: Holding): ObjectEvent | undefined {
    const before = holding.inForce
    const [holder] = holding.files
    // The object stays as it is while a file names it that cannot be used for it.
    if (holder === undefined && holding.unclear.length > 0) return undefined
    const after = holder === undefined ? undefined : this.#files.get(holder)?.objects.get(key)
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

/** The new contents of a file, with the last usable state of the objects that cannot be used now. */
function retain(before: FileContents, { objects, unusable, hasNameless }: FileObjects): FileContents {
  const unclear = [...unusable].filter((key) => !before.objects.has(key))
  if (!hasNameless && unusable.size === unclear.length) return { objects, unclear }
  const kept = [...before.objects].filter(([key]) => hasNameless || unusable.has(key))
  return { objects: new Map([...kept, ...objects]), unclear }
}

function conflictOf(holding: Holding): Conflict | undefined {
  const { files, inForce } = holding
  if (files.length < 2 || inForce === undefined) return undefined
  const [winner = '', ...others] = files
  return { object: describeObject(inForce), winner, others }
}
