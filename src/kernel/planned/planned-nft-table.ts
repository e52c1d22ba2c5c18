// One table of nf_tables with the planned changes.
import { constants } from 'node:os'
import { isSameSet, setAttributes } from '../nftables/attributes.js'
import { NfElements, type NfElementExtras } from '../nftables/elements.js'
import { expression as expressionCodec, type NfExpression } from '../nftables/expressions.js'
import type {
  NfChainState,
  NfCounterState,
  NfOp,
  NfRule,
  NfRuleState,
  NfScope,
  NfSet,
  NfSetState,
  NfTable,
  NfTableState,
  Nftables,
} from '../nftables/nftables.js'
import { StreamReader, StreamWriter } from '../nftables/stream.js'

const { EEXIST, ENOENT } = constants.errno

/** Greater than every handle of the kernel that a plan meets. */
const firstPlannedHandle = 1_000_000_000

type ElementOp = Extract<NfOp, { readonly elements: NfElements }>

interface PlannedSet {
  readonly state: NfSetState
  /** The kernel has the set: the changes apply to its elements. */
  isOfKernel: boolean
  changes: ElementOp[]
}

/** Operations on the content of a table. */
export type NfContentOp = Exclude<NfOp, { readonly op: `${string}-table` }>

/** The content of a table: the kernel's, read when a call concerns it, and the changes of the plan. */
export class PlannedNftTable {
  readonly state: NfTableState
  readonly chains = new Map<string, NfChainState>()
  readonly sets = new Map<string, PlannedSet>()
  readonly counters = new Map<string, NfCounterState>()
  /** The rules of chains that are read, or made by the plan. */
  readonly #rules = new Map<string, readonly NfRuleState[]>()
  readonly #real: Nftables
  #nextHandle = firstPlannedHandle

  constructor(state: NfTableState, real: Nftables) {
    this.state = state
    this.#real = real
  }

  /** A table that only the plan has. */
  static empty(table: NfTable, real: Nftables): PlannedNftTable {
    return new PlannedNftTable({ ...table, handle: firstPlannedHandle }, real)
  }

  /** The kernel's table. Throws KernelError. */
  static async read(state: NfTableState, real: Nftables): Promise<PlannedNftTable> {
    const table = new PlannedNftTable(state, real)
    const scope: NfScope = { family: state.family, table: state.table }
    for (const chain of await real.chains(scope)) table.chains.set(chain.chain, chain)
    for (const set of await real.sets(scope))
      table.sets.set(set.set, { state: set, isOfKernel: true, changes: [] })
    for (const counter of await real.counters(scope)) table.counters.set(counter.counter, counter)
    return table
  }

  /** The table as it is now: changes of the one do not change the other. */
  copy(): PlannedNftTable {
    const copy = new PlannedNftTable(this.state, this.#real)
    for (const [name, chain] of this.chains) copy.chains.set(name, chain)
    for (const [name, set] of this.sets) copy.sets.set(name, { ...set, changes: [...set.changes] })
    for (const [name, counter] of this.counters) copy.counters.set(name, counter)
    for (const [name, rules] of this.#rules) copy.#rules.set(name, rules)
    copy.#nextHandle = this.#nextHandle
    return copy
  }

  /** The rules of a chain; empty: the chain is absent. Throws KernelError. */
  async rules(chain: string): Promise<readonly NfRuleState[]> {
    if (!this.chains.has(chain)) return []
    const known = this.#rules.get(chain)
    if (known !== undefined) return known
    const { family, table } = this.state
    const rules = await this.#real.rules({ family, table, chain })
    this.#rules.set(chain, rules)
    return rules
  }

  /** As `Nftables.elements`; undefined: the set is absent. Throws KernelError. */
  async elements(set: NfSet): Promise<NfElements | undefined> {
    const planned = this.sets.get(set.set)
    if (planned === undefined) return undefined
    const { isOfKernel, changes } = planned
    const present = isOfKernel ? await this.#real.elements(set) : new NfElements(set)
    return changes.length === 0 ? present : changed(present, changes)
  }

  /** Applies one operation, after the rules of its chain are read. Returns an errno or 0, and the handle of a new rule. */
  apply(op: NfContentOp): { readonly errno: number; readonly handle?: number } {
    switch (op.op) {
      case 'add-chain':
        return { errno: this.#addChain(op.chain) }
      case 'delete-chain':
        this.#rules.delete(op.chain.chain)
        return { errno: this.chains.delete(op.chain.chain) ? 0 : ENOENT }
      case 'flush-chain':
        if (!this.chains.has(op.chain.chain)) return { errno: ENOENT }
        this.#rules.set(op.chain.chain, [])
        return { errno: 0 }
      case 'add-set':
        return { errno: this.#addSet(op.set) }
      case 'delete-set':
        return { errno: this.sets.delete(op.set.set) ? 0 : ENOENT }
      case 'flush-set':
      case 'add-elements':
      case 'create-elements':
      case 'delete-elements':
        return { errno: this.#changeElements(op) }
      case 'add-counter':
        if (!this.counters.has(op.counter.counter))
          this.counters.set(op.counter.counter, { ...op.counter, packets: 0, bytes: 0 })
        return { errno: 0 }
      case 'delete-counter':
        return { errno: this.counters.delete(op.counter.counter) ? 0 : ENOENT }
      case 'add-rule':
      case 'insert-rule':
      case 'replace-rule':
      case 'delete-rule':
        return this.#changeRules(op)
    }
  }

  /** `flush table`: the rules of all chains. */
  flush(): void {
    for (const chain of this.chains.keys()) this.#rules.set(chain, [])
  }

  #addChain(chain: Extract<NfOp, { op: 'add-chain' }>['chain']): number {
    if (this.chains.has(chain.chain)) return 0
    this.chains.set(chain.chain, { ...chain, handle: this.#nextHandle++ })
    this.#rules.set(chain.chain, [])
    return 0
  }

  #addSet(set: NfSet): number {
    const present = this.sets.get(set.set)
    if (present !== undefined) return isSameSet(set, present.state.attributes) ? 0 : EEXIST
    const { family, table } = this.state
    const attributes = { ...setAttributes(set), handle: this.#nextHandle++ }
    const state = { family, table, set: set.set, attributes }
    this.sets.set(set.set, { state, isOfKernel: false, changes: [] })
    return 0
  }

  #changeElements(op: ElementOp | Extract<NfOp, { op: 'flush-set' }>): number {
    const set = this.sets.get(op.op === 'flush-set' ? op.set.set : op.elements.set.set)
    if (set === undefined) return ENOENT
    if (op.op === 'flush-set') {
      set.isOfKernel = false
      set.changes = []
    } else set.changes.push(op)
    return 0
  }

  #changeRules(op: Extract<NfOp, { op: `${string}-rule` }>): {
    readonly errno: number
    readonly handle?: number
  } {
    const { chain } = op.rule
    const present = this.#rules.get(chain)
    if (present === undefined) return { errno: ENOENT }
    const handle = placeOf(op)
    const place = present.findIndex((rule) => rule.handle === handle)
    if (handle !== undefined && place < 0) return { errno: ENOENT }
    if (op.op === 'delete-rule') {
      this.#rules.set(chain, present.toSpliced(place, 1))
      return { errno: 0 }
    }
    if (op.op === 'replace-rule') {
      this.#rules.set(chain, present.toSpliced(place, 1, ruleState(op.rule, op.handle)))
      return { errno: 0 }
    }
    const made = this.#nextHandle++
    const end = op.op === 'add-rule' ? present.length : 0
    const at = place < 0 ? end : op.op === 'add-rule' ? place + 1 : place
    this.#rules.set(chain, present.toSpliced(at, 0, ruleState(op.rule, made)))
    return { errno: 0, handle: made }
  }
}

/** Handle in the operation: of the rule to replace or delete, or of the rule next to which it adds a rule. */
function placeOf(op: Extract<NfOp, { op: `${string}-rule` }>): number | undefined {
  if (op.op === 'add-rule') return op.after
  return op.op === 'insert-rule' ? op.before : op.handle
}

/** The rule as a dump shows it. */
function ruleState({ family, table, chain, expressions, comment }: NfRule, handle: number): NfRuleState {
  const rule = { family, table, chain, handle, expressions: shown(expressions) }
  return comment === undefined ? rule : { ...rule, comment }
}

/** The expressions with the defaults of absent fields. */
function shown(expressions: readonly NfExpression[]): readonly NfExpression[] {
  const stream = new StreamWriter()
  for (const expression of expressions) expressionCodec.write(stream, expression)
  const reader = new StreamReader(stream.finish())
  return expressions.map(() => expressionCodec.read(reader))
}

/** The elements after the changes. */
function changed(present: NfElements, changes: readonly ElementOp[]): NfElements {
  const places = new Map<string, { readonly of: NfElements; readonly index: number }>()
  const add = (of: NfElements): void => {
    for (let index = 0; index < of.length; index++) places.set(keyOf(of, index), { of, index })
  }
  add(present)
  for (const { op, elements } of changes) {
    if (op !== 'delete-elements') add(elements)
    else for (let index = 0; index < elements.length; index++) places.delete(keyOf(elements, index))
  }
  const result = new NfElements(present.set)
  for (const { of, index } of places.values()) result.add(of.key(index), extrasOf(of, index))
  return result
}

/** The identity of an element in its set. */
function keyOf(elements: NfElements, index: number): string {
  const parts = [elements.key(index), elements.keyEnd(index)]
  const text = parts.map((bytes) => Buffer.from(bytes).toString('latin1')).join('')
  return elements.isIntervalEnd(index) ? `${text} end` : text
}

function extrasOf(elements: NfElements, index: number): NfElementExtras {
  if (elements.isIntervalEnd(index)) return { isIntervalEnd: true }
  const { data } = elements.set
  const timeoutMs = elements.timeoutMs(index)
  return {
    keyEnd: elements.keyEnd(index),
    ...(timeoutMs === 0 ? {} : { timeoutMs, expirationMs: elements.expirationMs(index) || timeoutMs }),
    ...(data === 'verdict' ? { verdict: elements.verdict(index) } : {}),
    ...(data === 'counter' ? { counter: elements.counter(index) } : {}),
    ...(typeof data === 'object' ? { data: elements.data(index) } : {}),
  }
}
