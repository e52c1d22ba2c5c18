import type { Clock } from '../../../clock.js'
import type { NfOutcome, NfTransaction, Nftables } from '../../../kernel/index.js'
import type { FamilyMetrics } from '../../../metrics/index.js'
import type { StaleParts } from './stale-parts.js'

export interface TransactionSenderOptions {
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
