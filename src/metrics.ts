// Metrics: kube-proxy's names where they exist (spec section 6), viaduct_ for the rest. The only file that knows
// prom-client, which was renamed upstream. No per-service series: 10,000 series cost 60-80 ms of the event loop per scrape.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

export type IpFamilyLabel = 'IPv4' | 'IPv6'

export interface CountUp {
  inc(by?: number): void
}

export interface Level {
  set(value: number): void
}

export interface Observation {
  observe(seconds: number): void
}

/** Outcome counters of one kind of operation. */
export interface OperationMetrics {
  readonly applied: CountUp
  readonly failed: CountUp
}

/** Rules of one table of iptables mode. */
export interface RuleMetrics {
  /** Of ours in the kernel. */
  readonly total: Level
  /** Given to the kernel by the last sync that changed any. */
  readonly last: Level
}

/** Metrics of one IP family's pipeline, labels bound in advance. */
export interface FamilyMetrics {
  readonly syncDurationSeconds: Observation
  /** Unix seconds; only successful syncs set it. */
  readonly lastSyncTimestampSeconds: Level
  /** Unix seconds. */
  readonly lastQueuedTimestampSeconds: Level
  /** From the moment the source saw a change to the kernel's last acknowledgement for it. */
  readonly eventToKernelSeconds: Observation
  /** Syncs of iptables mode that brought about, or compared, everything. */
  readonly fullSyncDurationSeconds: Observation
  /** Syncs of iptables mode that brought about what changed. */
  readonly partialSyncDurationSeconds: Observation
  /** Tables of iptables mode that could not be written. */
  readonly iptablesRestoreFailures: CountUp
  /** Wait for the lock that iptables takes as well; one observation per write. */
  readonly xtablesLockWaitSeconds: Observation
  iptablesRules(table: 'filter' | 'nat'): RuleMetrics
  /** Service ports of traffic policy Local with endpoints, but none here. */
  noLocalEndpoints(policy: 'internal' | 'external'): Level
  /** One clean-up of the table of connections. */
  readonly conntrackSyncSeconds: Observation
  /** Flows that clean-ups deleted. */
  readonly conntrackDeleted: CountUp
  operation(name: string): OperationMetrics
  kernelError(operation: string, code: string): void
  /** kind: what was found different in the kernel, such as `missing`, `changed`, `surplus`. */
  drift(kind: string): CountUp
}

export interface Metrics {
  readonly ipv4: FamilyMetrics
  readonly ipv6: FamilyMetrics
  /** Service events seen, whatever they changed. */
  readonly serviceChanges: CountUp
  /** EndpointSlice events seen, whatever they changed. */
  readonly endpointChanges: CountUp
  /** Manifest files and objects in them that are not in force as written. */
  readonly manifestErrors: Level
  /** Objects that the kernel refuses at the moment. */
  readonly objectsFailed: Level
}

// kube-proxy's buckets E: 1 ms, doubled 14 times.
const kubeProxyBuckets = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i)
// From 100 us, the cost of one change on an idle machine, to 3.3 s.
const shortBuckets = Array.from({ length: 16 }, (_, i) => 0.0001 * 2 ** i)

/** Registers every metric in `registry`, once; a second call with the same registry throws. */
export function openMetrics(registry: Registry): Metrics {
  const families = new FamilyVectors(registry)
  return {
    ipv4: families.bind('IPv4'),
    ipv6: families.bind('IPv6'),
    serviceChanges: counter(registry, 'kubeproxy_sync_proxy_rules_service_changes_total', {
      help: '[ALPHA] Cumulative proxy rules Service changes',
    }),
    endpointChanges: counter(registry, 'kubeproxy_sync_proxy_rules_endpoint_changes_total', {
      help: '[ALPHA] Cumulative proxy rules Endpoint changes',
    }),
    manifestErrors: gauge(registry, 'viaduct_manifest_errors', {
      help: 'Manifest files, and objects in them, that are not in force as written',
    }),
    objectsFailed: gauge(registry, 'viaduct_objects_failed', {
      help: 'Objects that the kernel refuses at the moment',
    }),
  }
}

interface Shape<L extends string> {
  readonly help: string
  readonly labelNames?: readonly L[]
}

function counter<L extends string>(registry: Registry, name: string, shape: Shape<L>): Counter<L> {
  return new Counter({ ...mutable(shape), name, registers: [registry] })
}

function gauge<L extends string>(registry: Registry, name: string, shape: Shape<L>): Gauge<L> {
  return new Gauge({ ...mutable(shape), name, registers: [registry] })
}

function mutable<L extends string>(shape: Shape<L>): { help: string; labelNames: L[] } {
  return { help: shape.help, labelNames: [...(shape.labelNames ?? [])] }
}

function histogram(
  registry: Registry,
  name: string,
  help: string,
  buckets: number[],
): Histogram<'ip_family'> {
  return new Histogram({ name, help, buckets, labelNames: ['ip_family'], registers: [registry] })
}

class FamilyVectors {
  readonly #syncDuration: Histogram<'ip_family'>
  readonly #eventToKernel: Histogram<'ip_family'>
  readonly #fullSyncDuration: Histogram<'ip_family'>
  readonly #partialSyncDuration: Histogram<'ip_family'>
  readonly #lockWait: Histogram<'ip_family'>
  readonly #restoreFailures: Counter<'ip_family'>
  readonly #rulesTotal: Gauge<'ip_family' | 'table'>
  readonly #rulesLast: Gauge<'ip_family' | 'table'>
  readonly #noLocalEndpoints: Gauge<'ip_family' | 'traffic_policy'>
  readonly #lastSync: Gauge<'ip_family'>
  readonly #lastQueued: Gauge<'ip_family'>
  readonly #conntrackSync: Histogram<'ip_family'>
  readonly #conntrackDeleted: Counter<'ip_family'>
  readonly #operations: Counter<'ip_family' | 'operation' | 'result'>
  readonly #errors: Counter<'ip_family' | 'operation' | 'code'>
  readonly #drift: Counter<'ip_family' | 'kind'>

  constructor(registry: Registry) {
    this.#syncDuration = histogram(
      registry,
      'kubeproxy_sync_proxy_rules_duration_seconds',
      '[ALPHA] SyncProxyRules latency in seconds',
      kubeProxyBuckets,
    )
    this.#eventToKernel = histogram(
      registry,
      'viaduct_event_to_kernel_seconds',
      'From the change of an object to the last acknowledgement of the kernel',
      shortBuckets,
    )
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
    this.#restoreFailures = counter(registry, 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total', {
      help: '[ALPHA] Cumulative proxy iptables restore failures',
      labelNames: ['ip_family'],
    })
    this.#rulesTotal = gauge(registry, 'kubeproxy_sync_proxy_rules_iptables_total', {
      help: '[ALPHA] Total number of iptables rules owned by kube-proxy',
      labelNames: ['ip_family', 'table'],
    })
    this.#rulesLast = gauge(registry, 'kubeproxy_sync_proxy_rules_iptables_last', {
      help: '[ALPHA] Number of iptables rules written by kube-proxy in last sync',
      labelNames: ['ip_family', 'table'],
    })
    this.#noLocalEndpoints = gauge(registry, 'kubeproxy_sync_proxy_rules_no_local_endpoints_total', {
      help: '[ALPHA] Number of services with a Local traffic policy and no endpoints',
      labelNames: ['ip_family', 'traffic_policy'],
    })
    this.#lastSync = gauge(registry, 'kubeproxy_sync_proxy_rules_last_timestamp_seconds', {
      help: '[ALPHA] The last time proxy rules were successfully synced',
      labelNames: ['ip_family'],
    })
    this.#lastQueued = gauge(registry, 'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds', {
      help: '[ALPHA] The last time a sync of proxy rules was queued',
      labelNames: ['ip_family'],
    })
    this.#conntrackSync = histogram(
      registry,
      'kubeproxy_conntrack_reconciler_sync_duration_seconds',
      '[ALPHA] ReconcileConntrackFlowsLatency latency in seconds',
      kubeProxyBuckets,
    )
    this.#conntrackDeleted = counter(registry, 'kubeproxy_conntrack_reconciler_deleted_entries_total', {
      help: '[ALPHA] Cumulative conntrack flows deleted by conntrack reconciler',
      labelNames: ['ip_family'],
    })
    this.#operations = counter(registry, 'viaduct_sync_operations_total', {
      help: 'Kernel operations by outcome',
      labelNames: ['ip_family', 'operation', 'result'],
    })
    this.#errors = counter(registry, 'viaduct_kernel_errors_total', {
      help: 'Kernel operations that failed, by errno',
      labelNames: ['ip_family', 'operation', 'code'],
    })
    this.#drift = counter(registry, 'viaduct_drift_total', {
      help: 'Objects that a reconcile found different in the kernel',
      labelNames: ['ip_family', 'kind'],
    })
  }

  bind(family: IpFamilyLabel): FamilyMetrics {
    const label = { ip_family: family }
    const operations = new Map<string, OperationMetrics>()
    return {
      syncDurationSeconds: this.#syncDuration.labels(label),
      eventToKernelSeconds: this.#eventToKernel.labels(label),
      fullSyncDurationSeconds: this.#fullSyncDuration.labels(label),
      partialSyncDurationSeconds: this.#partialSyncDuration.labels(label),
      xtablesLockWaitSeconds: this.#lockWait.labels(label),
      iptablesRestoreFailures: this.#restoreFailures.labels(label),
      iptablesRules: (table) => ({
        total: this.#rulesTotal.labels({ ...label, table }),
        last: this.#rulesLast.labels({ ...label, table }),
      }),
      noLocalEndpoints: (policy) => this.#noLocalEndpoints.labels({ ...label, traffic_policy: policy }),
      lastSyncTimestampSeconds: this.#lastSync.labels(label),
      lastQueuedTimestampSeconds: this.#lastQueued.labels(label),
      conntrackSyncSeconds: this.#conntrackSync.labels(label),
      conntrackDeleted: this.#conntrackDeleted.labels(label),
      operation: (name) => {
        const known = operations.get(name)
        if (known !== undefined) return known
        const bound = {
          applied: this.#operations.labels({ ...label, operation: name, result: 'applied' }),
          failed: this.#operations.labels({ ...label, operation: name, result: 'failed' }),
        }
        operations.set(name, bound)
        return bound
      },
      kernelError: (operation, code) => this.#errors.inc({ ...label, operation, code }),
      drift: (kind) => this.#drift.labels({ ...label, kind }),
    }
  }
}
