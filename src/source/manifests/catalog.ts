import { isDeepStrictEqual } from 'node:util'
import type { KubernetesObject, ObjectEvent } from '../objects.js'
import { objectKey } from './document.js'

/** An object that several files have. */
export interface Conflict {
  /** `kind namespace/name`. */
  readonly object: string
  /** The file whose object is in force: the lexically first. */
  readonly winner: string
  readonly others: readonly string[]
}

type Objects = ReadonlyMap<string, KubernetesObject>

/** Which file holds which objects, and which of them are in force. Pure: no file is touched here. */
export class Catalog {
  readonly #files = new Map<string, Objects>()
  /** Object key to the files that have it, first one in force. */
  readonly #holders = new Map<string, readonly string[]>()
  readonly #inForce = new Map<string, KubernetesObject>()
  /** Keys of objects that several files have. */
  readonly #contested = new Set<string>()

  /**
   * Takes over the new contents of files (undefined: the file has gone) as one change of the world. Returns only what
   * differs from what was in force, and each object that several files have, or had until now (undefined).
   */
  apply(changes: ReadonlyMap<string, readonly KubernetesObject[] | undefined>): {
    readonly events: readonly ObjectEvent[]
    readonly conflicts: ReadonlyMap<string, Conflict | undefined>
  } {
    const touched = new Set<string>()
    for (const [file, objects] of changes) this.#replaceFile(file, objects ?? [], touched)
    const events: ObjectEvent[] = []
    const conflicts = new Map<string, Conflict | undefined>()
    for (const key of touched) {
      const event = this.#settle(key)
      if (event !== undefined) events.push(event)
      const conflict = this.#conflict(key)
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

  #replaceFile(file: string, objects: readonly KubernetesObject[], touched: Set<string>): void {
    const before: Objects = this.#files.get(file) ?? new Map()
    const after: Objects = new Map(objects.map((object) => [objectKey(object), object]))
    for (const key of before.keys()) {
      touched.add(key)
      if (!after.has(key)) this.#release(key, file)
    }
    const alone = [file]
    for (const key of after.keys()) {
      touched.add(key)
      if (!before.has(key)) this.#hold(key, alone)
    }
    if (after.size === 0) this.#files.delete(file)
    else this.#files.set(file, after)
  }

  /** `alone`: the file, which is all that most objects are in. */
  #hold(key: string, alone: readonly string[]): void {
    const others = this.#holders.get(key)
    this.#holders.set(key, others === undefined ? alone : [...others, ...alone].toSorted())
  }

  #release(key: string, file: string): void {
    const left = (this.#holders.get(key) ?? []).filter((holder) => holder !== file)
    if (left.length === 0) this.#holders.delete(key)
    else this.#holders.set(key, left)
  }

  #settle(key: string): ObjectEvent | undefined {
    const before = this.#inForce.get(key)
    const holder = this.#holders.get(key)?.[0]
    const after = holder === undefined ? undefined : this.#files.get(holder)?.get(key)
    if (after !== undefined) {
      this.#inForce.set(key, after)
      if (before !== undefined && isDeepStrictEqual(before, after)) return undefined
      return { type: 'set', object: after }
    }
    if (before === undefined) return undefined
    this.#inForce.delete(key)
    const { kind, namespace, name } = before
    return { type: 'delete', kind, key: { namespace, name } }
  }

  #conflict(key: string): Conflict | undefined {
    const holders = this.#holders.get(key)
    if (holders === undefined || holders.length < 2) return undefined
    const [winner = '', ...others] = holders
    return { object: key, winner, others }
  }
}
