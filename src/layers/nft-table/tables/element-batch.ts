// Elements to delete and add in one transaction, packed by set, each with the object that owns it.
import { NfElements, type NfOp, type NfSet } from '../../../kernel/index.js'
import type { FrontendEntry, HeldEntry } from './entries.js'
import { type PackedBytes, writePacked } from './packed.js'

/** The object that an element is a part of. */
export type ElementOwner = FrontendEntry | HeldEntry

/** An element: its key, and its data in a map. */
export interface PackedElement {
  readonly key: PackedBytes
  readonly data?: PackedBytes
}

/** Elements whose keys end with consecutive indexes of numgen. */
export interface PackedRun {
  /** The key of each element without its last word, the index. */
  readonly key: PackedBytes
  /** The index of the first element. */
  readonly index: number
  /** Number of elements. */
  readonly count: number
  /** Data of the elements, one after the other; empty: elements to delete. */
  readonly data: PackedBytes
}

const firstElements = 16

/** Elements of one set, packed, and their owners. */
class ElementList {
  readonly #set: NfSet
  readonly #stride: number
  readonly #keyBytes: number
  #bytes: Uint8Array
  #used = 0
  readonly owners: (ElementOwner | undefined)[] = []

  constructor(set: NfSet) {
    const { stride, layout } = new NfElements(set)
    this.#set = set
    this.#stride = stride
    this.#keyBytes = layout.keyBytes
    this.#bytes = new Uint8Array(firstElements * stride)
  }

  get elements(): NfElements {
    return new NfElements(this.#set, this.#bytes.subarray(0, this.#used))
  }

  push(owner: ElementOwner | undefined, { key, data = '' }: PackedElement): void {
    const at = this.#reserve(1)
    this.owners.push(owner)
    writePacked(this.#bytes, at, key)
    writePacked(this.#bytes, at + this.#keyBytes, data)
  }

  pushRun(owner: ElementOwner, { key, index, count, data }: PackedRun): void {
    let at = this.#reserve(count)
    const bytes = this.#bytes
    const dataBytes = data.length / count
    for (let nth = 0; nth < count; nth++, at += this.#stride) {
      this.owners.push(owner)
      writePacked(bytes, at, key)
      writeIndex(bytes, at + key.length, index + nth)
      const dataAt = at + this.#keyBytes
      const from = nth * dataBytes
      for (let offset = 0; offset < dataBytes; offset++)
        bytes[dataAt + offset] = data.charCodeAt(from + offset)
    }
  }

  /** Room for so many elements, zeroed; returns where it begins. */
  #reserve(count: number): number {
    const at = this.#used
    this.#used += count * this.#stride
    if (this.#used > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#used, 2 * this.#bytes.length))
      grown.set(this.#bytes)
      this.#bytes = grown
    }
    return at
  }
}

/** In the order of the host, as all numbers in registers of the kernel. */
function writeIndex(bytes: Uint8Array, at: number, index: number): void {
  bytes[at] = index
  bytes[at + 1] = index >>> 8
  bytes[at + 2] = index >>> 16
  bytes[at + 3] = index >>> 24
}

interface SetBatch {
  readonly removed: ElementList
  readonly added: ElementList
}

/** An operation on elements, and the owner of each element. */
export interface ElementOp {
  readonly op: Extract<NfOp, { elements: NfElements }>
  readonly owners: readonly (ElementOwner | undefined)[]
}

export class ElementBatch {
  /** By the names of the sets. */
  readonly #sets = new Map<string, SetBatch>()
  /** Number of elements. */
  size = 0

  /** `owner`: undefined for an element that belongs to no object. */
  remove(set: NfSet, owner: ElementOwner | undefined, element: PackedElement): void {
    this.#of(set, 1).removed.push(owner, element)
  }

  add(set: NfSet, owner: ElementOwner, element: PackedElement): void {
    this.#of(set, 1).added.push(owner, element)
  }

  removeRun(set: NfSet, owner: ElementOwner, run: PackedRun): void {
    this.#of(set, run.count).removed.pushRun(owner, run)
  }

  addRun(set: NfSet, owner: ElementOwner, run: PackedRun): void {
    this.#of(set, run.count).added.pushRun(owner, run)
  }

  /** All deletions, then all additions: an element whose data changes is in both. */
  ops(): readonly ElementOp[] {
    const sets = [...this.#sets.values()]
    const opsOf = (op: ElementOp['op']['op'], list: ElementList): readonly ElementOp[] =>
      list.owners.length === 0 ? [] : [{ op: { op, elements: list.elements }, owners: list.owners }]
    return [
      ...sets.flatMap(({ removed }) => opsOf('delete-elements', removed)),
      ...sets.flatMap(({ added }) => opsOf('add-elements', added)),
    ]
  }

  /** The batch of the set, for so many more elements. */
  #of(set: NfSet, count: number): SetBatch {
    this.size += count
    let batch = this.#sets.get(set.set)
    if (batch === undefined) {
      batch = { removed: new ElementList(set), added: new ElementList(set) }
      this.#sets.set(set.set, batch)
    }
    return batch
  }
}
