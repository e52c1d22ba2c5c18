// Elements to delete and add in one transaction, packed by set, each with the object that owns it.
import { NfElements, type NfOp, type NfSet } from '../../../kernel/index.js'
import type { FrontendEntry, HeldEntry } from './entries.js'
import { type PackedBytes, writePacked } from './packed.js'

/** The object that an element is a part of. */
export type ElementOwner = FrontendEntry | HeldEntry

/** A list of elements grows by halves: a batch has some sets with many elements and many with few. */
const firstElements = 16

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

  /** Room for one element, zeroed; returns where it begins. */
  #reserve(owner: ElementOwner | undefined): number {
    const at = this.#used
    this.#used += this.#stride
    if (this.#used > this.#bytes.length) {
      const grown = new Uint8Array(2 * this.#bytes.length)
      grown.set(this.#bytes)
      this.#bytes = grown
    }
    this.owners.push(owner)
    return at
  }

  /** `data`: its bytes from `from` on, as many as the set has. */
  push(owner: ElementOwner | undefined, key: PackedBytes, data: PackedBytes, from: number): void {
    const at = this.#reserve(owner)
    writePacked(this.#bytes, at, key)
    this.#writeData(at, data, from)
  }

  /** The key ends with an index of numgen: a number in the order of the host, as all of the kernel's registers. */
  pushAt(owner: ElementOwner, key: PackedBytes, index: number, data: PackedBytes, from: number): void {
    const at = this.#reserve(owner)
    writePacked(this.#bytes, at, key)
    const indexAt = at + key.length
    this.#bytes[indexAt] = index
    this.#bytes[indexAt + 1] = index >>> 8
    this.#bytes[indexAt + 2] = index >>> 16
    this.#bytes[indexAt + 3] = index >>> 24
    this.#writeData(at, data, from)
  }

  #writeData(at: number, data: PackedBytes, from: number): void {
    const length = data === '' ? 0 : this.#stride - this.#keyBytes
    writePacked(this.#bytes, at + this.#keyBytes, data, from, from + length)
  }
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
  remove(set: NfSet, owner: ElementOwner | undefined, key: PackedBytes): void {
    this.#of(set).removed.push(owner, key, '', 0)
  }

  removeAt(set: NfSet, owner: ElementOwner, key: PackedBytes, index: number): void {
    this.#of(set).removed.pushAt(owner, key, index, '', 0)
  }

  /** `data`: of a map. */
  add(set: NfSet, owner: ElementOwner, key: PackedBytes, data: PackedBytes = ''): void {
    this.#of(set).added.push(owner, key, data, 0)
  }

  /** `data`: its bytes from `from` on. */
  addAt(
    set: NfSet,
    owner: ElementOwner,
    {
      key,
      index,
      data,
      from,
    }: {
      readonly key: PackedBytes
      readonly index: number
      readonly data: PackedBytes
      readonly from: number
    },
  ): void {
    this.#of(set).added.pushAt(owner, key, index, data, from)
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

  #of(set: NfSet): SetBatch {
    this.size++
    let batch = this.#sets.get(set.set)
    if (batch === undefined) {
      batch = { removed: new ElementList(set), added: new ElementList(set) }
      this.#sets.set(set.set, batch)
    }
    return batch
  }
}
