// Metrics of writes into tables of nf_tables.
import type { Counter, Histogram, Registry } from 'prom-client'
import {
  type CountUp,
  type IpFamilyLabel,
  type Observation,
  familyCounter,
  histogram,
  shortBuckets,
} from './kinds.js'

/** Metrics of one IP family, labels bound in advance. */
export interface NftablesMetrics {
  /** Syncs of nftables mode with a transaction that the kernel refused. */
  readonly nftablesSyncFailures: CountUp
  /** The same for the removal of unused objects. */
  readonly nftablesCleanupFailures: CountUp
  /** One transaction, from the call into the addon to the kernel's answer. */
  readonly nftablesTransactionSeconds: Observation
}

/** The metrics of both families. */
export class NftablesVectors {
  readonly #syncFailures: Counter<'ip_family'>
  readonly #cleanupFailures: Counter<'ip_family'>
  readonly #transactions: Histogram<'ip_family'>

  constructor(registry: Registry) {
    this.#syncFailures = familyCounter(
      registry,
      'kubeproxy_sync_proxy_rules_nftables_sync_failures_total',
      '[ALPHA] Cumulative proxy nftables sync failures',
    )
    this.#cleanupFailures = familyCounter(
      registry,
      'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total',
      '[ALPHA] Cumulative proxy nftables cleanup failures',
    )
    this.#transactions = histogram(
      registry,
      'viaduct_nftables_transaction_seconds',
      'Duration of a transaction of nf_tables',
      shortBuckets,
    )
  }

  bind(family: IpFamilyLabel): NftablesMetrics {
    const label = { ip_family: family }
    return {
      nftablesSyncFailures: this.#syncFailures.labels(label),
      nftablesCleanupFailures: this.#cleanupFailures.labels(label),
      nftablesTransactionSeconds: this.#transactions.labels(label),
    }
  }
}
