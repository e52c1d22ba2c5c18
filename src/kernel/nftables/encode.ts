// Encodes transactions as streams for native/nftables/batch.h.
import type { IpFamily } from '../../address.js'
import { addressFamily } from '../records.js'
import { elementsOfLookup } from './anonymous-sets.js'
import { chainAttributes, counterType, ruleAttributes, setAttributes, tableAttributes } from './attributes.js'
import type { NfElements } from './elements.js'
import { elementLayout, type ElementLayout } from './elements.js'
import type { NfExpression } from './expressions.js'
import type { NfOp, NfRule, NfSet, NfTableKey, NfTransaction } from './nftables.js'
import { chainRecord, counterRecord, ruleRecord, setRecord, tableRecord } from './schema.js'
import { StreamWriter } from './stream.js'

/** Verb in native/nftables/batch.h. */
const verbs = { add: 0, create: 1, insert: 2, replace: 3, delete: 4 } as const
/** Object in native/nftables/batch.h. */
const objects = { table: 0, chain: 1, rule: 2, set: 3, counter: 4, elements: 5 } as const

type Verb = keyof typeof verbs
type ObjectKind = keyof typeof objects

/** OperationFlag in native/nftables/batch.h. */
const wantsHandleFlag = 1
const partOfNextFlag = 2

/** The stream of a transaction. NB: a view. No other code writes to its memory. */
export function encodeTransaction(transaction: NfTransaction): Uint8Array<ArrayBuffer> {
  const elements = transaction.reduce((sum, op) => sum + ('elements' in op ? op.elements.bytes.length : 0), 0)
  const stream = new StreamWriter(elements + 256 * transaction.length + 64)
  const ids: SetIds = { next: 1 }
  const encoder = new OpEncoder(stream, ids)
  const [first] = transaction
  if (first !== undefined) encoder.begin(first)
  for (const op of transaction) encoder.encode(op)
  return stream.finish()
}

/** NFTA_SET_ID is required for each new set, and unique in its transaction. */
interface SetIds {
  next: number
}

/** The table in which the operation deletes something other than elements by key; undefined: it does not, or deletes all of the table. */
function deletedFrom(op: NfOp): NfTableKey | undefined {
  switch (op.op) {
    case 'delete-chain':
    case 'flush-chain':
      return op.chain
    case 'delete-rule':
      return op.rule
    case 'delete-set':
    case 'flush-set':
      return op.set
    case 'delete-counter':
      return op.counter
    default:
      return undefined
  }
}

class OpEncoder {
  readonly #stream: StreamWriter
  readonly #ids: SetIds

  constructor(stream: StreamWriter, ids: SetIds) {
    this.#stream = stream
    this.#ids = ids
  }

  /**
   * Writes a change without effect before the first operation, if that is a deletion. The kernel tells the new generation only if its first message has
   * an echo. The echo of a deletion has all that is deleted, and one of a table that exists has nothing. Deletions in a table that does not
   * exist are refused as before. The deletion of a whole table, or of its rules, would not be: it gets no echo.
   */
  begin(first: NfOp): void {
    const key = deletedFrom(first)
    if (key === undefined) return
    this.#begin('add', 'table', key.family, partOfNextFlag)
    tableRecord.write(this.#stream, { name: key.table })
  }

  encode(op: NfOp): void {
    switch (op.op) {
      case 'add-table':
      case 'create-table':
        this.#begin(op.op === 'add-table' ? 'add' : 'create', 'table', op.table.family)
        return tableRecord.write(this.#stream, tableAttributes(op.table))
      case 'delete-table':
        this.#begin('delete', 'table', op.table.family)
        return tableRecord.write(this.#stream, { name: op.table.table })
      case 'add-chain':
        this.#begin('add', 'chain', op.chain.family)
        return chainRecord.write(this.#stream, chainAttributes(op.chain))
      case 'delete-chain':
        this.#begin('delete', 'chain', op.chain.family)
        return chainRecord.write(this.#stream, { table: op.chain.table, name: op.chain.chain })
      case 'add-set':
        this.#begin('add', 'set', op.set.family)
        return setRecord.write(this.#stream, setAttributes(op.set, this.#ids.next++))
      case 'delete-set':
        this.#begin('delete', 'set', op.set.family)
        return setRecord.write(this.#stream, { table: op.set.table, name: op.set.set })
      case 'add-counter':
      case 'delete-counter':
        return this.#counter(op)
      case 'flush-set':
        return this.#elements('delete', op.set)
      case 'add-elements':
        return this.#elements('add', op.elements.set, op.elements)
      case 'create-elements':
        return this.#elements('create', op.elements.set, op.elements)
      case 'delete-elements':
        return this.#elements('delete', op.elements.set, op.elements)
      default:
        return this.#rule(op)
    }
  }

  #begin(verb: Verb, object: ObjectKind, family: IpFamily, flags = 0): void {
    this.#stream.u32(verbs[verb])
    this.#stream.u32(objects[object])
    this.#stream.u32(addressFamily[family])
    this.#stream.u32(flags)
  }

  #counter({ op, counter }: Extract<NfOp, { counter: unknown }>): void {
    const isAdded = op === 'add-counter'
    this.#begin(isAdded ? 'add' : 'delete', 'counter', counter.family)
    const key = { table: counter.table, name: counter.counter, type: counterType }
    counterRecord.write(this.#stream, isAdded ? { ...key, data: {} } : key)
  }

  #rule(op: Extract<NfOp, { op: `${string}-rule` | 'flush-chain' | 'flush-table' }>): void {
    switch (op.op) {
      case 'flush-table':
        this.#begin('delete', 'rule', op.table.family)
        return ruleRecord.write(this.#stream, { table: op.table.table })
      case 'flush-chain':
        this.#begin('delete', 'rule', op.chain.family)
        return ruleRecord.write(this.#stream, { table: op.chain.table, chain: op.chain.chain })
      case 'delete-rule': {
        const { family, table, chain } = op.rule
        this.#begin('delete', 'rule', family)
        return ruleRecord.write(this.#stream, { table, chain, handle: op.handle })
      }
      case 'replace-rule': {
        const rule = this.#withSets(op.rule)
        this.#begin('replace', 'rule', op.rule.family)
        return ruleRecord.write(this.#stream, { ...ruleAttributes(rule), handle: op.handle })
      }
      default: {
        const position = op.op === 'add-rule' ? op.after : op.before
        const attributes = ruleAttributes(this.#withSets(op.rule))
        const flags = op.wantsHandle === true ? wantsHandleFlag : 0
        this.#begin(op.op === 'add-rule' ? 'add' : 'insert', 'rule', op.rule.family, flags)
        return ruleRecord.write(
          this.#stream,
          position === undefined ? attributes : { ...attributes, position },
        )
      }
    }
  }

  /** Writes the anonymous sets of a rule, and returns the rule with their ids. They and the rule are one operation. */
  #withSets(rule: NfRule): NfRule {
    if (!rule.expressions.some((each) => elementsOfLookup(each) !== undefined)) return rule
    const expressions = rule.expressions.map((each): NfExpression => {
      const elements = elementsOfLookup(each)
      if (each.kind !== 'lookup' || elements === undefined) return each
      const setId = this.#ids.next++
      const set = { ...elements.set, family: rule.family, table: rule.table, size: elements.length }
      this.#begin('add', 'set', rule.family, partOfNextFlag)
      setRecord.write(this.#stream, setAttributes(set, setId))
      this.#elements('add', set, elements, setId)
      return { ...each, set: set.set, setId }
    })
    return { ...rule, expressions }
  }

  /** Writes an operation on elements. Without elements it names only the set. `setId`: of an anonymous set of the next rule. */
  #elements(verb: Verb, set: NfSet, elements?: NfElements, setId = 0): void {
    this.#begin(verb, 'elements', set.family, setId === 0 ? 0 : partOfNextFlag)
    this.#stream.text(set.table)
    this.#stream.text(set.set)
    this.#stream.u32(setId)
    writeLayout(this.#stream, elementLayout(set))
    const labels = elements?.labels ?? []
    this.#stream.u32(labels.length)
    for (const label of labels) this.#stream.bytes(label)
    this.#stream.bytes(elements?.bytes ?? new Uint8Array(0))
  }
}

/** Writes the stream of ReadLayout() in native/nftables/elements.h. */
export function writeLayout(stream: StreamWriter, layout: ElementLayout): void {
  stream.u32(layout.keyBytes)
  stream.u32(layout.dataBytes)
  stream.u32(layout.parts)
  stream.u32(layout.data)
}
