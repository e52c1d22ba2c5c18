// A transaction of the table as a value: its operations, with elements packed by set, and what it leads to. It is planned, sent, and
// confirmed as a whole.
import {
  type NfOutcome,
  type NfTransaction,
  NfElements,
  type NfOp,
  type NfSet,
  printTransaction,
} from '../../../kernel/index.js'
import type { OperationKind } from '../../../engine/index.js'
import type { KernelError } from '../../../errors.js'
import type { HeldSet, TableContent } from './content.js'
import type { ElementOwner, FrontendEntry, HeldEntry } from './entries.js'
import { type PackedElement, planFrontend } from './frontend-elements.js'
import { absent, arrange, type FrontendState, isSameState } from './frontend-state.js'
import type { OwnPortEntry, OwnState } from './own-ports.js'
import { packBytes, type PackedBytes } from './packed.js'
import type { StaticSet } from './static-sets.js'

/** Why the kernel refused a transaction. */
export interface Refusal {
  /** Objects of the refused elements, each with an error. */
  readonly owners: ReadonlyMap<ElementOwner, KernelError>
  /** Something exists that should not, or the other way round: another program changed the table. undefined: nothing does. */
  readonly drift: RefusedDrift | undefined
}

/** Where the kernel has something else than is acknowledged. */
export interface RefusedDrift {
  /** Sets, chains or rules. */
  readonly isOfStructure: boolean
  /** Of the sets with refused elements, the keys of all elements of the transaction. */
  readonly sets: readonly { readonly set: NfSet; readonly keys: readonly PackedBytes[] }[]
}

/** The state of a frontend to write. Endpoints that the kernel has keep their index. */
export function targetOf({ acknowledged, desired }: FrontendEntry, stride: number): FrontendState {
  if (acknowledged === desired) return desired
  const endpoints = arrange(acknowledged.endpoints, desired.endpoints, stride)
  const shortCircuit = arrange(acknowledged.shortCircuit, desired.shortCircuit, stride)
  if (endpoints === desired.endpoints && shortCircuit === desired.shortCircuit) return desired
  return { ...desired, endpoints, shortCircuit }
}

/** Elements of one set, and the object that each belongs to; undefined: none. */
interface Change {
  readonly elements: NfElements
  readonly owners: (ElementOwner | undefined)[]
}

interface SetChanges {
  removed: Change | undefined
  added: Change | undefined
}

type PlannedContent = Pick<
  TableContent,
  | 'counts'
  | 'flagSets'
  | 'former'
  | 'frontends'
  | 'groups'
  | 'moves'
  | 'own'
  | 'packer'
  | 'schema'
  | 'strays'
  | 'structure'
>

/** The kernel's time for a rule of an own chain, in elements. */
export const elementsPerRule = 4

const existence: ReadonlySet<string> = new Set(['ENOENT', 'EEXIST'])

/** The operations come in this order: `first`, own chains, deletions of elements, additions of elements, `addLast` and `addStatic`. */
export class Transaction {
  /** Number of planned elements. */
  size = 0
  readonly #content: PlannedContent
  readonly #first: readonly NfOp[]
  /** Operations on own chains. */
  readonly #own: { readonly op: NfOp; readonly entry: OwnPortEntry }[] = []
  readonly #ownPorts = new Map<OwnPortEntry, OwnState>()
  readonly #last: NfOp[] = []
  /** By the names of the sets. */
  readonly #sets = new Map<string, SetChanges>()
  readonly #frontends = new Map<FrontendEntry, FrontendState>()
  readonly #held: { readonly of: HeldSet; readonly entry: HeldEntry; readonly target: boolean }[] = []
  readonly #strays: string[] = []
  readonly #statics: StaticSet[] = []

  /** `first`: what the elements need. */
  constructor(content: PlannedContent, first: readonly NfOp[] = []) {
    this.#content = content
    this.#first = first
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
  }

  /** The own chains of a service port. */
  addOwnPort(entry: OwnPortEntry): void {
    const { former, own, schema } = this.#content
    const target = own.targetOf(entry)
    const ops = own.ops(entry, target)
    this.#ownPorts.set(entry, target)
    for (const op of ops) this.#own.push({ op, entry })
    this.size += elementsPerRule * ops.length
    const clients = former?.elementsOf(entry, schema.clients(entry.id))
    if (clients === undefined) return
    this.#own.push({ op: { op: 'add-elements', elements: clients }, entry })
    this.size += clients.length
  }

  addHeld(of: HeldSet, entry: HeldEntry): void {
    const { desired: target, acknowledged, id } = entry
    this.#held.push({ of, entry, target })
    if (target && !acknowledged) this.add(of.set, entry, { key: id })
    if (!target && acknowledged) this.remove(of.set, entry, { key: id })
  }

  /** The set of this name has no strays after the transaction: all of them are removed. */
  endStrays(name: string): void {
    this.#strays.push(name)
  }

  /** The elements of a set that is written as a whole. */
  addStatic(each: StaticSet): void {
    const isNew = this.#first.some((op) => op.op === 'add-set' && op.set.set === each.set.set)
    this.#last.push(...each.plan({ isNew }))
    this.#statics.push(each)
  }

  /** Adds the operations after which the elements serve. */
  addLast(ops: readonly NfOp[]): void {
    this.#last.push(...ops)
  }

  /** `owner`: undefined for an element that belongs to no object. */
  remove(set: NfSet, owner: ElementOwner | undefined, { key, chain }: PackedElement): void {
    const { elements, owners } = this.#removedOf(set)
    if (chain === undefined) elements.addPacked(key)
    else addLeading(elements, key, chain)
    owners.push(owner)
    this.size++
  }

  add(set: NfSet, owner: ElementOwner, { key, data, from, chain }: PackedElement): void {
    const { elements, owners } = this.#addedOf(set)
    if (chain === undefined) elements.addPacked(key, data, from)
    else addLeading(elements, key, chain)
    owners.push(owner)
    this.size++
  }

  /** The operations: all deletions of elements, then all additions, since an element whose data changes is in both. */
  get ops(): NfTransaction {
    const { removed, added } = this.#changes
    const removals = removed.map(({ elements }): NfOp => ({ op: 'delete-elements', elements }))
    const additions = added.map(({ elements }): NfOp => ({ op: 'add-elements', elements }))
    return [...this.#first, ...this.#own.map(({ op }) => op), ...removals, ...additions, ...this.#last]
  }

  /** The kernel took the transaction. */
  confirm(): void {
    const { counts, former, frontends, groups, moves, own, strays, structure } = this.#content
    structure.confirm([...this.#first, ...this.#last])
    for (const [entry, target] of this.#frontends) {
      // A frontend without elements is absent, with or without an owner.
      entry.acknowledged = isSameState(target, absent) ? absent : target
      groups?.noteChanged(entry)
      frontends.settle(entry)
      moves.confirm(entry)
    }
    for (const [entry, target] of this.#ownPorts) {
      own.confirm(entry, target)
      former?.forget(entry)
    }
    for (const { of, entry, target } of this.#held) {
      entry.acknowledged = target
      of.entries.settle(entry)
    }
    for (const [name, { added, removed }] of this.#sets)
      counts.add(name, (added?.elements.length ?? 0) - (removed?.elements.length ?? 0))
    for (const name of this.#strays) strays.delete(name)
    for (const each of this.#statics) each.confirm()
  }

  /** Returns the objects that the kernel refused, by its answer to the transaction. */
  refusalOf({ failures }: NfOutcome): Refusal {
    const { removed, added } = this.#changes
    const changes = [...removed, ...added]
    const owners = new Map<ElementOwner, KernelError>()
    // Behind a refused chain, its rules and the elements that lead there fail too: their errors say nothing.
    const causes = failures.filter((failure) => !this.#isOfExistence(failure))
    for (const { operation = -1, element, error } of causes.length === 0 ? failures : causes) {
      const own = this.#own[operation - this.#first.length]
      if (own !== undefined) owners.set(own.entry, error)
      const change = changes[operation - this.#first.length - this.#own.length]
      // Without an index from the kernel, only an operation with one element names its object.
      const owner = change?.owners[element ?? (change.owners.length === 1 ? 0 : -1)]
      if (owner !== undefined) owners.set(owner, error)
    }
    return { owners, drift: causes.length > 0 ? undefined : this.#driftOf(failures) }
  }

  #driftOf(failures: NfOutcome['failures']): RefusedDrift | undefined {
    if (failures.length === 0) return undefined
    const refused = failures.map((failure) => this.#changeOf(failure))
    const names = new Set(refused.map((change) => change?.elements.set.set))
    const sets = [...this.#sets].filter(([name]) => names.has(name))
    return {
      isOfStructure: refused.includes(undefined),
      sets: sets.flatMap(([, { added: some, removed: others }]) => {
        const set = some?.elements.set ?? others?.elements.set
        return set === undefined ? [] : [{ set, keys: [...keysOf(some), ...keysOf(others)] }]
      }),
    }
  }

  /** Something exists, or does not. In some kernels, an element of a map that exists with another value is busy. */
  #isOfExistence(failure: NfOutcome['failures'][number]): boolean {
    const { code } = failure.error
    return existence.has(code) || (code === 'EBUSY' && this.#changeOf(failure) !== undefined)
  }

  /** The elements of a refused operation; undefined: it is about something else. */
  #changeOf({ operation = -1 }: NfOutcome['failures'][number]): Change | undefined {
    const { removed, added } = this.#changes
    return [...removed, ...added][operation - this.#first.length - this.#own.length]
  }

  get #changes(): { readonly removed: readonly Change[]; readonly added: readonly Change[] } {
    const sets = [...this.#sets.values()]
    return {
      removed: sets.flatMap(({ removed }) => removed ?? []),
      added: sets.flatMap(({ added }) => added ?? []),
    }
  }

  #removedOf(set: NfSet): Change {
    const changes = this.#of(set)
    return (changes.removed ??= { elements: new NfElements(set), owners: [] })
  }

  #addedOf(set: NfSet): Change {
    const changes = this.#of(set)
    return (changes.added ??= { elements: new NfElements(set), owners: [] })
  }

  #of({ set }: NfSet): SetChanges {
    let changes = this.#sets.get(set)
    if (changes === undefined) this.#sets.set(set, (changes = { removed: undefined, added: undefined }))
    return changes
  }
}

/** Adds an element of a verdict map, which leads to the chain. */
function addLeading(elements: NfElements, key: PackedBytes, chain: string): void {
  elements.add(Buffer.from(key, 'latin1'), { verdict: { code: 'goto', chain } })
}

function keysOf(change: Change | undefined): readonly PackedBytes[] {
  if (change === undefined) return []
  const { elements } = change
  return Array.from({ length: elements.length }, (_, index) => packBytes(elements.key(index)))
}

/** An operation on elements counts once for each of them. */
export const nftOperations: OperationKind<NfOp> = {
  name: 'nftables',
  // A pass writes the operation's name in front.
  describe: (op) => printTransaction([op]).trim().replace(/^\S+ /, ''),
  isMetered: true,
  isDescribedLate: true,
}

/** The operations of a transaction with one element each. */
export class SentOperations {
  readonly length: number
  readonly counts = new Map<NfOp['op'], number>()
  readonly #transaction: NfTransaction

  constructor(transaction: NfTransaction) {
    this.#transaction = transaction
    let length = 0
    for (const op of transaction) {
      const size = sizeOf(op)
      length += size
      this.counts.set(op.op, (this.counts.get(op.op) ?? 0) + size)
    }
    this.length = length
  }

  /** For printing: time grows with the number of operations in the transaction. */
  at(index: number): NfOp | undefined {
    let left = index
    for (const op of this.#transaction) {
      const size = sizeOf(op)
      if (left < size) return 'elements' in op ? { op: op.op, elements: oneOf(op.elements, left) } : op
      left -= size
    }
    return undefined
  }
}

function sizeOf(op: NfOp): number {
  return 'elements' in op ? op.elements.length : 1
}

function oneOf({ set, stride, bytes, labels }: NfElements, index: number): NfElements {
  return new NfElements(set, bytes.slice(index * stride, (index + 1) * stride), labels)
}
