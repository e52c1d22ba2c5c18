import type { Clock } from '../../../clock.js'
import type { NfOutcome, NfTransaction, Nftables } from '../../../kernel/index.js'
import type { FamilyMetrics } from '../../../metrics/index.js'
import type { Suspects } from './suspects.js'

export interface TableSenderOptions {
  readonly nftables: Pick<Nftables, 'apply'>
  readonly clock: Clock
  readonly metrics: Pick<FamilyMetrics, 'nftablesTransactionSeconds'>
  readonly suspects: Suspects
  /** Gets the generation of each transaction. */
  readonly onApplied: (generation: number) => void
}

/** Sends the transactions of one family's table. The watch leaves them out, so their generations are noted here. */
export class TableSender {
  readonly #options: TableSenderOptions
  #count = 0

  constructor(options: TableSenderOptions) {
    this.#options = options
  }

  /** Number of transactions that the kernel took so far. */
  get count(): number {
    return this.#count
  }

  /** As `Nftables.apply`. */
  async apply(transaction: NfTransaction): Promise<NfOutcome> {
    const { nftables, clock, metrics, suspects, onApplied } = this.#options
    const startMs = clock.now()
    const outcome = await nftables.apply(transaction)
    metrics.nftablesTransactionSeconds.observe((clock.now() - startMs) / 1000)
    if (outcome.state === 'applied') this.#count++
    const { generation } = outcome
    if (generation === undefined) return outcome
    suspects.noteGeneration(generation)
    onApplied(generation)
    return outcome
  }
}
