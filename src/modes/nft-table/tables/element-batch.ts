// Elements to delete and add in one transaction, packed by set, each with the object that owns it.
import { NfElements, type NfOp, type NfSet } from '../../../kernel/index.js'
import type { FrontendEntry, HeldEntry } from './entries.js'
import { type PackedBytes, writePacked } from './packed.js'

/** The object that an element is a part of. */
export type ElementOwner = FrontendEntry | HeldEntry

/** An element: its key, and its data in a map. */
export interface PackedElement {
  readonly key: PackedBytes
  /** The last word of the key, an index of numgen; absent: the key is whole. */
  readonly index?: number
  readonly data?: PackedBytes
  /** Where the data begins in `data`. Default 0. */
  readonly from?: number
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

  push(owner: ElementOwner | undefined, { key, index, data = '', from = 0 }: PackedElement): void {
    const at = this.#reserve()
    const bytes = this.#bytes
    this.owners.push(owner)
    writePacked(bytes, at, key)
    if (index !== undefined) writeIndex(bytes, at + key.length, index)
    const dataAt = at + this.#keyBytes
    const length = data === '' ? 0 : this.#stride - this.#keyBytes
    for (let offset = 0; offset < length; offset++) bytes[dataAt + offset] = data.charCodeAt(from + offset)
  }

  /** Room for one element, zeroed; returns where it begins. */
  #reserve(): number {
    const at = this.#used
    this.#used += this.#stride
    if (this.#used > this.#bytes.length) {
      const grown = new Uint8Array(2 * this.#bytes.length)
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
    this.#of(set).removed.push(owner, element)
  }

  add(set: NfSet, owner: ElementOwner, element: PackedElement): void {
    this.#of(set).added.push(owner, element)
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
