// The operations of a transaction, as a pass counts and prints them.
import { NfElements, type NfOp, type NfTransaction, printTransaction } from '../../../kernel/index.js'
import type { OperationKind } from '../../../engine/index.js'

type NftOperation = NfOp

/** An operation on elements counts once for each of them. */
export const nftOperations: OperationKind<NftOperation> = {
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

function oneOf({ set, stride, bytes }: NfElements, index: number): NfElements {
  return new NfElements(set, bytes.slice(index * stride, (index + 1) * stride))
}
