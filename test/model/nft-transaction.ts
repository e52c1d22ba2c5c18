// Applies the operations of one nf_tables transaction to the model, with the kernel's errnos.
import { constants } from 'node:os'
import { elementsOfLookup } from '../../src/kernel/nftables/anonymous-sets.js'
import { isSameSet, setAttributes } from '../../src/kernel/nftables/attributes.js'
import type { NftChangedObject } from '../../src/kernel/nftables/changes.js'
import type { NfElements } from '../../src/kernel/nftables/elements.js'
import type {
  NfChain,
  NfChainKey,
  NfCounterKey,
  NfOp,
  NfRule,
  NfRuleState,
  NfSet,
  NfSetKey,
  NfTable,
  NfTableKey,
} from '../../src/kernel/nftables/nftables.js'
import { matches } from '../../src/kernel/xtables/nft/info.js'
import {
  countersOf,
  elementKey,
  elementsOf,
  type ModelNfChain,
  type ModelNfSet,
  type ModelNfTable,
  type ModelNftChanges,
  type ModelNftNamespace,
  setEntry,
  setsOf,
  shown,
  targetsOf,
} from './nft-objects.js'

const { EBUSY, EEXIST, EINVAL, ENFILE, ENOENT, EOPNOTSUPP, EPERM } = constants.errno

/** The errno, and the index of the refused element. */
export interface ModelRefusal {
  readonly errno: number
  readonly element?: number
}

type Refusal = ModelRefusal | undefined

export class ModelNftTransaction {
  readonly #namespace: ModelNftNamespace
  readonly #port: number
  readonly #changes: ModelNftChanges
  readonly handles = new Map<number, number>()

  constructor(namespace: ModelNftNamespace, port: number, changes: ModelNftChanges) {
    this.#namespace = namespace
    this.#port = port
    this.#changes = changes
  }

  /** Applies one operation. undefined: success. */
  apply(op: NfOp, index: number): Refusal {
    switch (op.op) {
      case 'add-table':
      case 'create-table':
        return this.#addTable(op.table, op.op === 'create-table')
      case 'delete-table':
        return this.#within(op.table, () => this.#deleteTable(op.table))
      case 'flush-table':
        return this.#within(op.table, (table) => this.#flush(op.table, [...table.chains.values()]))
      case 'add-chain':
        return this.#within(op.chain, (table) => this.#addChain(table, op.chain))
      case 'delete-chain':
        return this.#withChain(op.chain, (table, chain) => this.#deleteChain(table, chain))
      case 'flush-chain':
        return this.#withChain(op.chain, (_, chain) => this.#flush(op.chain, [chain]))
      case 'add-set':
        return this.#within(op.set, (table) => this.#addSet(table, op.set))
      case 'delete-set':
        return this.#withSet(op.set, (table, set) => this.#deleteSet(table, set))
      case 'flush-set':
        return this.#withSet(op.set, (_, set) => this.#removeElements(set, [...set.elements.keys()]))
      case 'add-counter':
        return this.#within(op.counter, (table) => this.#addCounter(table, op.counter))
      case 'delete-counter':
        return this.#within(op.counter, (table) => this.#deleteCounter(table, op.counter))
      case 'add-elements':
      case 'create-elements':
        return this.#withSet(op.elements.set, (table, set) =>
          this.#addElements(table, set, op.elements, op.op === 'create-elements'),
        )
      case 'delete-elements':
        return this.#withSet(op.elements.set, (_, set) =>
          this.#removeElements(set, elementsOf(op.elements).map(elementKey)),
        )
      default:
        return this.#withChain(op.rule, (table, chain) => this.#rule(table, chain, op, index))
    }
  }

  #within(key: NfTableKey, act: (table: ModelNfTable) => Refusal): Refusal {
    const table = this.#namespace.tables[key.family].get(key.table)
    if (table === undefined) return { errno: ENOENT }
    const { owner } = table.state
    return owner === undefined || owner === this.#port ? act(table) : { errno: EPERM }
  }

  #withChain(key: NfChainKey, act: (table: ModelNfTable, chain: ModelNfChain) => Refusal): Refusal {
    return this.#within(key, (table) => {
      const chain = table.chains.get(key.chain)
      return chain === undefined ? { errno: ENOENT } : act(table, chain)
    })
  }

  #withSet(key: NfSetKey, act: (table: ModelNfTable, set: ModelNfSet) => Refusal): Refusal {
    return this.#within(key, (table) => {
      const set = table.sets.get(key.set)
      return set === undefined ? { errno: ENOENT } : act(table, set)
    })
  }

  #note({ family, table }: NfTableKey, kind: NftChangedObject['kind'], name: string, undo: () => void): void {
    this.#changes.note({ kind, family, table, name }, undo)
  }

  #addTable(table: NfTable, isNew: boolean): Refusal {
    const known = this.#namespace.tables[table.family].get(table.table)
    if (known === undefined) {
      const made = this.#namespace.makeTable(table, this.#port)
      const undo = setEntry(this.#namespace.tables[table.family], table.table, made)
      this.#note(table, 'table', '', undo)
      return undefined
    }
    if (known.state.owner !== undefined && known.state.owner !== this.#port) return { errno: EPERM }
    return isNew ? { errno: EEXIST } : undefined
  }

  #deleteTable(table: NfTableKey): Refusal {
    this.#note(table, 'table', '', setEntry(this.#namespace.tables[table.family], table.table, undefined))
    return undefined
  }

  #addChain(table: ModelNfTable, chain: NfChain): Refusal {
    const known = table.chains.get(chain.chain)
    if (known !== undefined) {
      const { hook } = known.chain
      const isSame = chain.hook === undefined || JSON.stringify(hook) === JSON.stringify(chain.hook)
      return isSame ? undefined : { errno: EOPNOTSUPP }
    }
    const made = { chain, handle: table.nextHandle++, rules: [] }
    this.#note(chain, 'chain', chain.chain, setEntry(table.chains, chain.chain, made))
    return undefined
  }

  #deleteChain(table: ModelNfTable, { chain }: ModelNfChain): Refusal {
    const rules = [...table.chains.values()].flatMap((other) => other.rules)
    const verdicts = [...table.sets.values()].flatMap((set) => [...set.elements.values()])
    const isTarget =
      rules.some((rule) => targetsOf(rule).includes(chain.chain)) ||
      verdicts.some((element) => element.chain === chain.chain)
    if (isTarget) return { errno: EBUSY }
    this.#note(chain, 'chain', chain.chain, setEntry(table.chains, chain.chain, undefined))
    return undefined
  }

  #flush(key: NfTableKey, chains: readonly ModelNfChain[]): Refusal {
    for (const chain of chains) if (chain.rules.length > 0) this.#setRules(key, chain, [])
    return undefined
  }

  #setRules(key: NfTableKey, chain: ModelNfChain, rules: readonly NfRuleState[]): void {
    const before = chain.rules
    chain.rules = rules
    this.#note(key, 'rules', chain.chain.chain, () => {
      chain.rules = before
    })
  }

  #rule(
    table: ModelNfTable,
    chain: ModelNfChain,
    op: Extract<NfOp, { op: `${string}-rule` }>,
    index: number,
  ): Refusal {
    const handle = placeOf(op)
    const place = chain.rules.findIndex((rule) => rule.handle === handle)
    if (handle !== undefined && place < 0) return { errno: ENOENT }
    if (op.op === 'delete-rule') {
      this.#setRules(op.rule, chain, chain.rules.toSpliced(place, 1))
      return undefined
    }
    const refusal = refusalOfElements(table, op.rule) ?? refusalOf(table, op.rule)
    if (refusal !== undefined) return refusal
    if (op.op === 'replace-rule') {
      this.#setRules(op.rule, chain, chain.rules.toSpliced(place, 1, ruleState(table, op.rule, op.handle)))
      return undefined
    }
    const made = ruleState(table, op.rule, table.nextHandle++)
    const end = op.op === 'add-rule' ? chain.rules.length : 0
    const at = place < 0 ? end : op.op === 'add-rule' ? place + 1 : place
    this.#setRules(op.rule, chain, chain.rules.toSpliced(at, 0, made))
    if (op.wantsHandle === true) this.handles.set(index, made.handle)
    return undefined
  }

  #addSet(table: ModelNfTable, set: NfSet): Refusal {
    const known = table.sets.get(set.set)
    if (known !== undefined) {
      const isSame = isSameSet({ ...set, comment: '' }, setAttributes({ ...known.set, comment: '' }))
      return isSame ? undefined : { errno: EEXIST }
    }
    const made = { set, handle: table.nextHandle++, elements: new Map() }
    this.#note(set, 'set', set.set, setEntry(table.sets, set.set, made))
    return undefined
  }

  #deleteSet(table: ModelNfTable, { set }: ModelNfSet): Refusal {
    const rules = [...table.chains.values()].flatMap((chain) => chain.rules)
    if (rules.some((rule) => setsOf(rule).includes(set.set))) return { errno: EBUSY }
    this.#note(set, 'set', set.set, setEntry(table.sets, set.set, undefined))
    return undefined
  }

  #addElements(table: ModelNfTable, kept: ModelNfSet, elements: NfElements, isNew: boolean): Refusal {
    for (const [index, element] of elementsOf(elements).entries()) {
      if (element.chain !== undefined && !table.chains.has(element.chain))
        return { errno: ENOENT, element: index }
      const isOfCounter = kept.set.data === 'counter' && !element.isIntervalEnd
      if (isOfCounter && !table.counters.has(element.content)) return { errno: ENOENT, element: index }
      const key = elementKey(element)
      const known = kept.elements.get(key)
      if (known !== undefined) {
        if (isNew || known.content !== element.content) return { errno: EEXIST, element: index }
        continue
      }
      if (kept.elements.size >= (kept.set.size ?? Infinity)) return { errno: ENFILE, element: index }
      this.#note(kept.set, 'elements', kept.set.set, setEntry(kept.elements, key, element))
    }
    return undefined
  }

  #removeElements(kept: ModelNfSet, keys: readonly string[]): Refusal {
    for (const [index, key] of keys.entries()) {
      if (!kept.elements.has(key)) return { errno: ENOENT, element: index }
      this.#note(kept.set, 'elements', kept.set.set, setEntry(kept.elements, key, undefined))
    }
    return undefined
  }

  #addCounter(table: ModelNfTable, counter: NfCounterKey): Refusal {
    if (table.counters.has(counter.counter)) return undefined
    table.counters.add(counter.counter)
    this.#note(counter, 'counter', counter.counter, () => table.counters.delete(counter.counter))
    return undefined
  }

  #deleteCounter(table: ModelNfTable, counter: NfCounterKey): Refusal {
    if (!table.counters.has(counter.counter)) return { errno: ENOENT }
    const rules = [...table.chains.values()].flatMap((chain) => chain.rules)
    const maps = [...table.sets.values()].filter(({ set }) => set.data === 'counter')
    const isUsed =
      rules.some((rule) => countersOf(rule).includes(counter.counter)) ||
      maps.some(({ elements }) => [...elements.values()].some(({ content }) => content === counter.counter))
    if (isUsed) return { errno: EBUSY }
    table.counters.delete(counter.counter)
    this.#note(counter, 'counter', counter.counter, () => table.counters.add(counter.counter))
    return undefined
  }
}

/** Handle in the operation: of the rule to replace or delete, or of the rule next to which it adds a rule. */
function placeOf(op: Extract<NfOp, { op: `${string}-rule` }>): number | undefined {
  if (op.op === 'add-rule') return op.after
  return op.op === 'insert-rule' ? op.before : op.handle
}

/** net/netfilter/x_tables.c xt_check_proc_name(): the name of a `recent` list is a file name. */
function hasBadList({ expressions }: NfRule): boolean {
  return expressions.some((expression) => {
    if (expression.kind !== 'match' || expression.name !== 'recent') return false
    const list = matches.recent.decode(expression.info)?.list
    return list === '.' || list === '..'
  })
}

/** A refused element of the rule's anonymous sets. */
function refusalOfElements(table: ModelNfTable, { expressions }: NfRule): Refusal {
  for (const expression of expressions) {
    for (const [index, { chain }] of elementsOf(elementsOfLookup(expression)).entries()) {
      const errno = chain === undefined ? undefined : refusalOfTarget(table, chain)
      if (errno !== undefined) return { errno, element: index }
    }
  }
  return undefined
}

function refusalOfTarget(table: ModelNfTable, target: string): number | undefined {
  const chain = table.chains.get(target)
  if (chain === undefined) return ENOENT
  return chain.chain.hook === undefined ? undefined : EOPNOTSUPP
}

/** For a rule that uses an absent object, a base chain or a bad name. undefined: it uses none. */
function refusalOf(table: ModelNfTable, rule: NfRule): Refusal {
  if (hasBadList(rule)) return { errno: EINVAL }
  for (const target of targetsOf(rule)) {
    const errno = refusalOfTarget(table, target)
    if (errno !== undefined) return { errno }
  }
  const isWhole =
    setsOf(rule).every((set) => table.sets.has(set)) &&
    countersOf(rule).every((counter) => table.counters.has(counter))
  return isWhole ? undefined : { errno: ENOENT }
}

function ruleState(of: ModelNfTable, rule: NfRule, handle: number): NfRuleState {
  const { family, table, chain, expressions, comment } = rule
  const made = { family, table, chain, handle, expressions: shown(expressions, () => of.nextAnonymous++) }
  return comment === undefined ? made : { ...made, comment }
}
