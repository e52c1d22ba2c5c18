// Metrics of what is written into tables of rules.
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
export interface RuleMetrics {
  /** Of ours in the kernel. */
  readonly total: Level
  /** Given to the kernel by the last sync that changed any. */
  readonly last: Level
}

/** Of one IP family, labels bound in advance. */
export interface IptablesMetrics {
  /** Syncs of iptables mode that brought about, or compared, everything. */
  readonly fullSyncDurationSeconds: Observation
  /** Syncs of iptables mode that brought about what changed. */
  readonly partialSyncDurationSeconds: Observation
  /** Tables that could not be written. */
  readonly iptablesRestoreFailures: CountUp
  /** Those of them that were to be written for what had changed alone; iptables mode. */
  readonly iptablesPartialRestoreFailures: CountUp
  /** Wait for the lock that iptables takes as well; one observation per write. */
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
      'Wait for the lock that iptables takes as well, per write of a table',
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
