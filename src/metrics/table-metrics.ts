// Metrics of writes into tables of rules and of nf_tables.
import type { Counter, Gauge, Histogram, Registry } from 'prom-client'
import {
  type CountUp,
  type IpFamilyLabel,
  type Level,
  type Observation,
  familyCounter,
  gauge,
  histogram,
  kubeProxyBuckets,
  shortBuckets,
} from './kinds.js'

/** Rules of one table of iptables mode. */
interface RuleMetrics {
  /** Rules of Viaduct in the kernel. */
  readonly total: Level
  /** Rules written by the last sync that changed any. */
  readonly last: Level
}

/** Metrics of one IP family, labels bound in advance. */
export interface IptablesMetrics {
  /** Full syncs of iptables and nftables mode: complete writes or comparisons. */
  readonly fullSyncDurationSeconds: Observation
  /** Partial syncs of iptables and nftables mode, which write only changes. */
  readonly partialSyncDurationSeconds: Observation
  /** Failed writes of a table. */
  readonly iptablesRestoreFailures: CountUp
  /** Failed writes of a table in partial syncs of iptables mode. */
  readonly iptablesPartialRestoreFailures: CountUp
  /** Time of waiting for the lock of the iptables tools; one observation per write. */
  readonly xtablesLockWaitSeconds: Observation
  iptablesRules(table: 'filter' | 'nat'): RuleMetrics
}

/** The metrics of both families. */
export class IptablesVectors {
  readonly #fullSyncDuration: Histogram<'ip_family'>
  readonly #partialSyncDuration: Histogram<'ip_family'>
  readonly #lockWait: Histogram<'ip_family'>
  readonly #restoreFailures: Counter<'ip_family'>
  readonly #partialRestoreFailures: Counter<'ip_family'>
  readonly #rulesTotal: Gauge<'ip_family' | 'table'>
  readonly #rulesLast: Gauge<'ip_family' | 'table'>

  constructor(registry: Registry) {
    this.#fullSyncDuration = histogram(
      registry,
      'kubeproxy_sync_full_proxy_rules_duration_seconds',
      '[ALPHA] SyncProxyRules latency in seconds for full resyncs',
      kubeProxyBuckets,
    )
    this.#partialSyncDuration = histogram(
      registry,
      'kubeproxy_sync_partial_proxy_rules_duration_seconds',
      '[ALPHA] SyncProxyRules latency in seconds for partial resyncs',
      kubeProxyBuckets,
    )
    this.#lockWait = histogram(
      registry,
      'viaduct_xtables_lock_wait_seconds',
      'Wait for the lock of the iptables tools, per write of a table',
      shortBuckets,
    )
    this.#restoreFailures = familyCounter(
      registry,
      'kubeproxy_sync_proxy_rules_iptables_restore_failures_total',
      '[ALPHA] Cumulative proxy iptables restore failures',
    )
    this.#partialRestoreFailures = familyCounter(
      registry,
      'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total',
      '[ALPHA] Cumulative proxy iptables partial restore failures',
    )
    this.#rulesTotal = gauge(registry, 'kubeproxy_sync_proxy_rules_iptables_total', {
      help: '[ALPHA] Total number of iptables rules owned by kube-proxy',
      labelNames: ['ip_family', 'table'],
    })
    this.#rulesLast = gauge(registry, 'kubeproxy_sync_proxy_rules_iptables_last', {
      help: '[ALPHA] Number of iptables rules written by kube-proxy in last sync',
      labelNames: ['ip_family', 'table'],
    })
  }

  bind(family: IpFamilyLabel): IptablesMetrics {
    const label = { ip_family: family }
    return {
      fullSyncDurationSeconds: this.#fullSyncDuration.labels(label),
      partialSyncDurationSeconds: this.#partialSyncDuration.labels(label),
      xtablesLockWaitSeconds: this.#lockWait.labels(label),
      iptablesRestoreFailures: this.#restoreFailures.labels(label),
      iptablesPartialRestoreFailures: this.#partialRestoreFailures.labels(label),
      iptablesRules: (table) => ({
        total: this.#rulesTotal.labels({ ...label, table }),
        last: this.#rulesLast.labels({ ...label, table }),
      }),
    }
  }
}

/** Metrics of one IP family, labels bound in advance. */
export interface NftablesMetrics {
  /** Syncs of nftables mode with a transaction that the kernel refused. */
  readonly nftablesSyncFailures: CountUp
  /** The same for the removal of unused objects. */
  readonly nftablesCleanupFailures: CountUp
  /** One transaction, from the call into the addon to the kernel's answer. */
  readonly nftablesTransactionSeconds: Observation
  /** Service ports whose set of clients with session affinity is full. */
  readonly fullClientSets: Level
}

/** The metrics of both families. */
export class NftablesVectors {
  readonly #syncFailures: Counter<'ip_family'>
  readonly #cleanupFailures: Counter<'ip_family'>
  readonly #transactions: Histogram<'ip_family'>
  readonly #fullClientSets: Gauge<'ip_family'>

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
    this.#fullClientSets = gauge(registry, 'viaduct_nftables_full_client_sets', {
      help: 'Service ports whose set of clients with session affinity is full: their new clients have no affinity',
      labelNames: ['ip_family'],
    })
  }

  bind(family: IpFamilyLabel): NftablesMetrics {
    const label = { ip_family: family }
    return {
      nftablesSyncFailures: this.#syncFailures.labels(label),
      nftablesCleanupFailures: this.#cleanupFailures.labels(label),
      nftablesTransactionSeconds: this.#transactions.labels(label),
      fullClientSets: this.#fullClientSets.labels(label),
    }
  }
}
