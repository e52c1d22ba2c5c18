import type { Clock } from '../../../clock.js'
import {
  type NfOutcome,
  type NfTransaction,
  type Nftables,
  NfElements,
  type NfOp,
  printTransaction,
} from '../../../kernel/index.js'
import type { FamilyMetrics } from '../../../metrics/index.js'
import type { OperationKind } from '../../../engine/index.js'
import type { StaleParts } from './stale-parts.js'

interface TransactionSenderOptions {
  readonly nftables: Pick<Nftables, 'apply'>
  readonly clock: Clock
  readonly metrics: Pick<FamilyMetrics, 'nftablesTransactionSeconds'>
  readonly staleParts: StaleParts
  /** Gets the generation of each transaction. */
  readonly onApplied: (generation: number) => void
}

/** Sends the transactions of one family's table. The watch leaves them out, so their generations are noted here. */
export class TransactionSender {
  readonly #options: TransactionSenderOptions
  #count = 0

  constructor(options: TransactionSenderOptions) {
    this.#options = options
  }

  /** Number of transactions that the kernel took so far. */
  get count(): number {
    return this.#count
  }

  /** As `Nftables.apply`. */
  async apply(transaction: NfTransaction): Promise<NfOutcome> {
    const { nftables, clock, metrics, staleParts, onApplied } = this.#options
    const startMs = clock.now()
    const outcome = await nftables.apply(transaction)
    metrics.nftablesTransactionSeconds.observe((clock.now() - startMs) / 1000)
    if (outcome.state === 'applied') this.#count++
    const { generation } = outcome
    if (generation === undefined) return outcome
    staleParts.noteGeneration(generation)
    onApplied(generation)
    return outcome
  }
}

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
