// Prints transactions in the syntax of `nft -f`, one command per line.
import { describeChain, describeSet, describeTable } from './describe.js'
import type { NfElements } from './elements.js'
import { isTypeof } from './fields.js'
import type { NfChain, NfHook, NfOp, NfRule, NfSet, NfTable, NfTransaction } from './nftables.js'
import { printElements } from './print-elements.js'
import { type FindSet, printExpressions } from './print-rule.js'
import { printTime, quote } from './print-values.js'

/**
 * The commands with the same effect as the transaction. `sets`: existing sets that the transaction uses. A rule that uses an unknown
 * set may be printed with too many fields in a key.
 */
export function printTransaction(transaction: NfTransaction, sets: readonly NfSet[] = []): string {
  const known = new Map<string, NfSet>()
  for (const set of sets) known.set(describeSet(set), set)
  for (const op of transaction) {
    if (op.op === 'add-set') known.set(describeSet(op.set), op.set)
    if ('elements' in op) known.set(describeSet(op.elements.set), op.elements.set)
  }
  return transaction.map((op) => `${printOp(op, (key) => known.get(key))}\n`).join('')
}

function printOp(op: NfOp, findSet: FindSet): string {
  switch (op.op) {
    case 'add-table':
    case 'create-table':
      return `${op.op.split('-')[0] ?? ''} table ${printTable(op.table)}`
    case 'delete-table':
    case 'flush-table':
      return `${op.op === 'delete-table' ? 'delete' : 'flush'} table ${describeTable(op.table)}`
    case 'add-chain':
      return `add chain ${printChain(op.chain)}`
    case 'delete-chain':
    case 'flush-chain':
      return `${op.op === 'delete-chain' ? 'delete' : 'flush'} chain ${describeChain(op.chain)}`
    case 'add-rule':
      return `add rule ${printPlace(op.rule, op.after)} ${printRule(op.rule, findSet)}`
    case 'insert-rule':
      return `insert rule ${printPlace(op.rule, op.before)} ${printRule(op.rule, findSet)}`
    case 'replace-rule':
      return `replace rule ${describeChain(op.rule)} handle ${op.handle} ${printRule(op.rule, findSet)}`
    case 'delete-rule':
      return `delete rule ${describeChain(op.rule)} handle ${op.handle}`
    case 'add-set':
      return `add ${printSet(op.set)}`
    case 'delete-set':
      return `delete set ${describeSet(op.set)}`
    case 'flush-set':
      return `flush ${kindOf(op.set)} ${describeSet(op.set)}`
    case 'add-elements':
    case 'create-elements':
    case 'delete-elements':
      return printElementsOp(op)
    case 'add-counter':
    case 'delete-counter':
      return `${op.op.split('-')[0] ?? ''} counter ${describeTable(op.counter)} ${op.counter.counter}`
  }
}

/** ` { a ; b ; }`, or empty text without parts. */
function block(parts: readonly (string | undefined)[]): string {
  const present = parts.filter((part) => part !== undefined)
  return present.length === 0 ? '' : ` { ${present.map((part) => `${part} ; `).join('')}}`
}

function printComment(comment: string | undefined): string | undefined {
  return comment === undefined ? undefined : `comment ${quote(comment)}`
}

function printTable(table: NfTable): string {
  const { flags = [], comment } = table
  const parts = [flags.length === 0 ? undefined : `flags ${flags.join(',')}`, printComment(comment)]
  return `${describeTable(table)}${block(parts)}`
}

function printChain(chain: NfChain): string {
  const { hook, comment } = chain
  const parts = hook === undefined ? [] : printHook(hook)
  return `${describeChain(chain)}${block([...parts, printComment(comment)])}`
}

function printHook({ type, hook, priority, policy = 'accept' }: NfHook): readonly string[] {
  return [`type ${type} hook ${hook} priority ${priority}`, `policy ${policy}`]
}

function printPlace(rule: NfRule, handle: number | undefined): string {
  return `${describeChain(rule)}${handle === undefined ? '' : ` position ${handle}`}`
}

function printRule({ family, table, expressions, comment }: NfRule, findSet: FindSet): string {
  const find: FindSet = (set) => findSet(describeSet({ family, table, set }))
  const text = printExpressions(family, expressions, find)
  return [text, printComment(comment)].filter((part) => part !== undefined && part !== '').join(' ')
}

function kindOf(set: NfSet): string {
  return set.data === undefined ? 'set' : 'map'
}

function printSet(set: NfSet): string {
  const { key, data, flags = [], size, timeoutMs, gcIntervalMs, comment } = set
  const values = data === undefined ? '' : ` : ${typeof data === 'string' ? data : data.join(' . ')}`
  const parts = [
    `${isTypeof(key) ? 'typeof' : 'type'} ${key.join(' . ')}${values}`,
    size === undefined ? undefined : `size ${size}`,
    flags.length === 0 ? undefined : `flags ${flags.join(',')}`,
    timeoutMs === undefined ? undefined : `timeout ${printTime(timeoutMs)}`,
    gcIntervalMs === undefined ? undefined : `gc-interval ${printTime(gcIntervalMs)}`,
    set.isCounting === true ? 'counter' : undefined,
    printComment(comment),
  ]
  return `${kindOf(set)} ${describeSet(set)}${block(parts)}`
}

function printElementsOp({ op, elements }: Extract<NfOp, { elements: NfElements }>): string {
  const isDeleted = op === 'delete-elements'
  return `${op.split('-')[0] ?? ''} element ${describeSet(elements.set)} { ${printElements(elements, isDeleted).join(', ')} }`
}
