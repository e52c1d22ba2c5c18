// A transaction that is being planned: its elements, packed by set, each with the object that owns it, and the states that the objects
// have after it.
import { NfElements, type NfOp, type NfSet } from '../../../kernel/index.js'
import { losesAffinity } from './affinity.js'
import type { HeldSet, TableContent } from './content.js'
import type { ElementOwner, FrontendEntry, HeldEntry } from './entries.js'
import { type ElementLayout, type PackedElement, type PackedRun, planFrontend } from './frontend-elements.js'
import { absent, arrange, type FrontendState, isSameState } from './frontend-state.js'
import { type FrontendId, writePacked } from './packed.js'

/** The state of a frontend to write. Endpoints that the kernel has keep their index. */
export function targetOf({ acknowledged, desired }: FrontendEntry, stride: number): FrontendState {
  if (acknowledged === desired) return desired
  const endpoints = arrange(acknowledged.endpoints, desired.endpoints, stride)
  const shortCircuit = arrange(acknowledged.shortCircuit, desired.shortCircuit, stride)
  if (endpoints === desired.endpoints && shortCircuit === desired.shortCircuit) return desired
  return { ...desired, endpoints, shortCircuit }
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

interface SetChanges {
  readonly removed: ElementList
  readonly added: ElementList
}

/** An operation on elements, and the owner of each element. */
export interface ElementOp {
  readonly op: Extract<NfOp, { elements: NfElements }>
  readonly owners: readonly (ElementOwner | undefined)[]
}

/** The changes of one transaction. The kernel has them only after the commit. */
export class TransactionPlan {
  /** Frontends from which clients with session affinity may have to go. */
  readonly losses = new Set<FrontendId>()
  /** Names of the sets from which elements go that belong to no object. */
  readonly strays: string[] = []
  readonly #content: Pick<TableContent, 'frontends'> & ElementLayout
  readonly #frontends = new Map<FrontendEntry, FrontendState>()
  readonly #held: { readonly of: HeldSet; readonly entry: HeldEntry; readonly target: boolean }[] = []
  /** By the names of the sets. */
  readonly #sets = new Map<string, SetChanges>()
  /** Number of elements. */
  size = 0

  constructor(content: Pick<TableContent, 'frontends'> & ElementLayout) {
    this.#content = content
  }

  /** The transaction leads to a state of the frontend. */
  hasFrontend(entry: FrontendEntry): boolean {
    return this.#frontends.has(entry)
  }

  addFrontend(entry: FrontendEntry, target: FrontendState): void {
    const { acknowledged } = entry
    this.#frontends.set(entry, target)
    if (acknowledged === target) return
    planFrontend(this, this.#content, entry, target)
    if (losesAffinity(acknowledged, target, this.#content.packer.endpointBytes)) this.losses.add(entry.id)
  }

  addHeld(of: HeldSet, entry: HeldEntry): void {
    const { desired: target, acknowledged, id } = entry
    this.#held.push({ of, entry, target })
    if (target && !acknowledged) this.add(of.set, entry, { key: id })
    if (!target && acknowledged) this.remove(of.set, entry, { key: id })
  }

  /** The kernel took the transaction. */
  confirm(): void {
    const { frontends } = this.#content
    for (const [entry, target] of this.#frontends) {
      // A frontend without elements is absent, with or without an owner.
      entry.acknowledged = isSameState(target, absent) ? absent : target
      frontends.settle(entry)
    }
    for (const { of, entry, target } of this.#held) {
      entry.acknowledged = target
      of.entries.settle(entry)
    }
  }

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

  /** The operations on elements: all deletions, then all additions: an element whose data changes is in both. */
  ops(): readonly ElementOp[] {
    const sets = [...this.#sets.values()]
    const opsOf = (op: ElementOp['op']['op'], list: ElementList): readonly ElementOp[] =>
      list.owners.length === 0 ? [] : [{ op: { op, elements: list.elements }, owners: list.owners }]
    return [
      ...sets.flatMap(({ removed }) => opsOf('delete-elements', removed)),
      ...sets.flatMap(({ added }) => opsOf('add-elements', added)),
    ]
  }

  /** The changes of the set, for so many more elements. */
  #of(set: NfSet, count: number): SetChanges {
    this.size += count
    let changes = this.#sets.get(set.set)
    if (changes === undefined) {
      changes = { removed: new ElementList(set), added: new ElementList(set) }
      this.#sets.set(set.set, changes)
    }
    return changes
  }
}
