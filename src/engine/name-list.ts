// Lists of names for people, of bounded length.
import type { ObjectChange } from '../source/index.js'

/** Some things by name: their number, and the first names. */
export interface FirstNames<Name extends string = string> {
  readonly count: number
  readonly first: readonly Name[]
}

/** Greatest number of names of one kind in the record of a pass. */
export const namedInRecord = 8

/** Counts names, and keeps the first ones, each once. */
export class NameList<Name extends string = string> {
  readonly #first: Name[] = []
  #count = 0

  /** NB: once the list is full, it cannot recognize a name that comes again. */
  get isFull(): boolean {
    return this.#first.length === namedInRecord
  }

  add(name: Name): void {
    if (this.#first.includes(name)) return
    this.#count++
    if (!this.isFull) this.#first.push(name)
  }

  /** Counts a further thing, whose name is not kept. */
  addUnnamed(): void {
    this.#count++
  }

  addAll({ count, first }: FirstNames<Name>): void {
    for (const name of first) this.add(name)
    this.#count += count - first.length
  }

  /** As they are now. */
  get names(): FirstNames<Name> {
    return { count: this.#count, first: [...this.#first] }
  }
}

/** Adds the object of the change. */
export function noteObject(objects: NameList, change: ObjectChange): void {
  if (objects.isFull) objects.addUnnamed()
  else objects.add(nameOf(change))
}

/** `EndpointSlice default/web-x7k2`, `ServiceCIDR kubernetes`. */
function nameOf(change: ObjectChange): string {
  const { kind } = change.type === 'set' ? change.object : change
  const { namespace, name } = change.type === 'set' ? change.object : change.key
  return `${kind} ${namespace === '' ? name : `${namespace}/${name}`}`
}
