// Transactions in the syntax of `nft -f`: an operation for each object, and for each element of a set.
import {
  describeNfOp,
  describeSet,
  type NfOp,
  type NfSet,
  type NfTransaction,
  printElements,
  printTransaction,
} from '../../kernel/index.js'
import type { KernelOperation } from './operation.js'

type ElementOp = Extract<NfOp, { readonly elements: unknown }>

/** Prints transactions. Remembers the sets, by which rules are printed. */
export class NftPrinter {
  readonly #sets = new Map<string, NfSet>()
  #rules = 0

  print(transaction: NfTransaction): readonly KernelOperation[] {
    for (const op of transaction) {
      const set = op.op === 'add-set' ? op.set : 'elements' in op ? op.elements.set : undefined
      if (set !== undefined) this.#sets.set(describeSet(set), set)
    }
    return transaction.flatMap((op) => ('elements' in op ? elementOperations(op) : [this.#operation(op)]))
  }

  #operation(op: Exclude<NfOp, ElementOp>): KernelOperation {
    const { object } = describeNfOp(op)
    const text = printTransaction([op], [...this.#sets.values()]).trimEnd()
    return { tool: 'nft', effect: effectOf(op), object: `${this.#kindOf(op)} ${object}`, text }
  }

  /** Rules have no identity of their own. */
  #kindOf({ op }: NfOp): string {
    const kind = op.slice(op.indexOf('-') + 1)
    return kind === 'rule' ? `rule ${++this.#rules}` : kind
  }
}

function effectOf({ op }: NfOp): KernelOperation['effect'] {
  if (op === 'replace-rule') return 'change'
  return op.startsWith('delete') || op.startsWith('flush') ? 'remove' : 'add'
}

function elementOperations(op: ElementOp): readonly KernelOperation[] {
  const { elements } = op
  const set = describeSet(elements.set)
  const isDeleted = op.op === 'delete-elements'
  const keys = printElements(elements, true)
  const texts = isDeleted ? keys : printElements(elements)
  const verb = op.op.split('-', 1)[0] ?? ''
  return keys.map((key, index) => ({
    tool: 'nft',
    effect: isDeleted ? 'remove' : 'add',
    object: `element ${set} ${key}`,
    text: `${verb} element ${set} { ${texts[index] ?? ''} }`,
  }))
}
