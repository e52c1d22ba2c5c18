// Metrics: kube-proxy's names where they exist (kubernetes.io/docs/reference/instrumentation/metrics), viaduct_ for the rest. No
// per-service series: 10,000 series cost 60-80 ms of the event loop per scrape.
import { type Counter, type Gauge, Histogram, type Registry } from 'prom-client'
import {
  type IptablesMetrics,
  IptablesVectors,
  type NftablesMetrics,
  NftablesVectors,
} from './table-metrics.js'
import {
  type CountUp,
  type IpFamilyLabel,
  type Level,
  type Observation,
  counter,
  familyCounter,
  familyGauge,
  gauge,
  histogram,
  kubeProxyBuckets,
  programmingBuckets,
  shortBuckets,
} from './kinds.js'

/** Outcome counters of one kind of operation. */
interface OperationMetrics {
  readonly applied: CountUp
  readonly failed: CountUp
}

/** An operation and its result. */
export interface EventLabels {
  readonly kind: 'Service' | 'EndpointSlice' | 'Node' | 'ServiceCIDR'
  readonly type: 'set' | 'delete'
}

/** Metrics of one IP family's pipeline, labels bound in advance. */
export interface FamilyMetrics extends IptablesMetrics, NftablesMetrics {
  readonly syncDurationSeconds: Observation
  /** Time of the last successful sync, in Unix seconds. */
  readonly lastSyncTimestampSeconds: Level
  /** Unix seconds. */
  readonly lastQueuedTimestampSeconds: Level
  /** Time from a change of endpoints, as their EndpointSlice says, to the kernel; only for changes since the process started. */
  readonly networkProgrammingSeconds: Observation
  /** Time from the moment the source saw a change to the kernel's last acknowledgement for it. */
  readonly eventToKernelSeconds: Observation
  /** Services of traffic policy Local with a port that has endpoints, but none on this node. */
  noLocalEndpoints(policy: 'internal' | 'external'): Level
  /** Frontends that service ports want and do not get. */
  readonly frontendConflicts: Level
  /** One clean-up of the connection tracking table. */
  readonly conntrackSyncSeconds: Observation
  /** Flows that clean-ups deleted. */
  readonly conntrackDeleted: CountUp
  /** Recompiled service ports. */
  readonly dirtyRoutes: CountUp
  operation(name: string): OperationMetrics
  kernelError(operation: string, code: string): void
  /** kind: the difference found in the kernel, such as `missing`, `changed`, `surplus`. */
  drift(kind: string): CountUp
  /** Kernel objects that Viaduct owns. */
  ledgerObjects(kind: string): Level
}

export interface Metrics {
  readonly ipv4: FamilyMetrics
  readonly ipv6: FamilyMetrics
  /** The active mode and the configured mode. */
  proxyMode(mode: string, configured: string): void
  /** Service events, whether or not they changed anything. */
  readonly serviceChanges: CountUp
  /** EndpointSlice events, whether or not they changed anything. */
  readonly endpointChanges: CountUp
  /** Service events that no sync has taken yet. */
  readonly serviceChangesPending: Level
  /** EndpointSlice events that no sync has taken yet. */
  readonly endpointChangesPending: Level
  /** Events of a source, whether or not they changed anything. */
  events(labels: EventLabels): CountUp
  /** A request to the API server is over. */
  apiRequest(report: ApiRequestReport): void
  /** A reply of `/healthz` of the health server. */
  healthz(code: 200 | 503): void
  /** A reply of `/livez`. */
  livez(code: 200 | 503): void
  /** Manifest files and objects with a problem. */
  readonly manifestErrors: Level
  /** Objects of the API server that are not applied. */
  readonly apiObjectErrors: Level
  /** Kinds of objects that cannot be watched. */
  readonly apiLinksDown: Level
  /** Objects and tables whose programming currently fails. */
  readonly objectsFailed: Level
  /** Outcome of an Event for the API server. */
  apiEvent(result: 'sent' | 'failed' | 'overflow'): void
}

/** Registers every metric in `registry`, once; a second call with the same registry throws. */
export function openMetrics(registry: Registry): Metrics {
  const families = new FamilyVectors(registry)
  const healthz = counter(registry, 'kubeproxy_proxy_healthz_total', {
    help: '[ALPHA] Cumulative proxy healthz HTTP status',
    labelNames: ['code'],
  })
  const livez = counter(registry, 'kubeproxy_proxy_livez_total', {
    help: '[ALPHA] Cumulative proxy livez HTTP status',
    labelNames: ['code'],
  })
  const apiEvents = counter(registry, 'viaduct_api_events_total', {
    help: 'Events (events.k8s.io) for the API server, new ones and new counts; result: sent (accepted), failed (not accepted), overflow (dropped because too many were pending)',
    labelNames: ['result'],
  })
  const proxyMode = gauge(registry, 'viaduct_proxy_mode', {
    help: 'Always 1; mode: the mode that runs; configured: the mode of --proxy-mode or the configuration file, iptables if blank',
    labelNames: ['mode', 'configured'],
  })
  const events = counter(registry, 'viaduct_events_total', {
    help: 'Events of objects from the API server or the manifests, with or without an effect; kind: Service, EndpointSlice, Node, ServiceCIDR; type: set, delete',
    labelNames: ['kind', 'type'],
  })
  return {
    ipv4: families.bind('IPv4'),
    ipv6: families.bind('IPv6'),
    proxyMode: (mode, configured) => proxyMode.set({ mode, configured }, 1),
    serviceChanges: counter(registry, 'kubeproxy_sync_proxy_rules_service_changes_total', {
      help: '[ALPHA] Cumulative proxy rules Service changes',
    }),
    endpointChanges: counter(registry, 'kubeproxy_sync_proxy_rules_endpoint_changes_total', {
      help: '[ALPHA] Cumulative proxy rules Endpoint changes',
    }),
    serviceChangesPending: gauge(registry, 'kubeproxy_sync_proxy_rules_service_changes_pending', {
      help: '[ALPHA] Pending proxy rules Service changes',
    }),
    endpointChangesPending: gauge(registry, 'kubeproxy_sync_proxy_rules_endpoint_changes_pending', {
      help: '[ALPHA] Pending proxy rules Endpoint changes',
    }),
    events: (labels) => events.labels({ ...labels }),
    apiRequest: openApiMetrics(registry),
    healthz: (code) => healthz.inc({ code }),
    livez: (code) => livez.inc({ code }),
    manifestErrors: gauge(registry, 'viaduct_manifest_errors', {
      help: 'Manifest files, and objects in them, that are not applied as written; the log names them',
    }),
    apiObjectErrors: gauge(registry, 'viaduct_api_object_errors', {
      help: 'Objects of the API server that are not applied; their last good state stays in force',
    }),
    apiLinksDown: gauge(registry, 'viaduct_api_links_down', {
      help: 'Kinds of objects that the agent currently cannot watch at the API server',
    }),
    objectsFailed: gauge(registry, 'viaduct_objects_failed', {
      help: 'Objects and tables whose programming currently fails; the log names them',
    }),
    apiEvent: (result) => apiEvents.inc({ result }),
  }
}

class FamilyVectors {
  readonly #iptables: IptablesVectors
  readonly #nftables: NftablesVectors
  readonly #syncDuration: Histogram<'ip_family'>
  readonly #programming: Histogram<'ip_family'>
  readonly #eventToKernel: Histogram<'ip_family'>
  readonly #noLocalEndpoints: Gauge<'ip_family' | 'traffic_policy'>
  readonly #frontendConflicts: Gauge<'ip_family'>
  readonly #lastSync: Gauge<'ip_family'>
  readonly #lastQueued: Gauge<'ip_family'>
  readonly #conntrackSync: Histogram<'ip_family'>
  readonly #conntrackDeleted: Counter<'ip_family'>
  readonly #dirtyRoutes: Counter<'ip_family'>
  readonly #ledgerObjects: Gauge<'ip_family' | 'kind'>
  readonly #operations: Counter<'ip_family' | 'operation' | 'result'>
  readonly #errors: Counter<'ip_family' | 'operation' | 'code'>
  readonly #drift: Counter<'ip_family' | 'kind'>

  constructor(registry: Registry) {
    this.#iptables = new IptablesVectors(registry)
    this.#nftables = new NftablesVectors(registry)
    this.#syncDuration = histogram(
      registry,
      'kubeproxy_sync_proxy_rules_duration_seconds',
      '[ALPHA] SyncProxyRules latency in seconds',
      kubeProxyBuckets,
    )
    this.#programming = histogram(
      registry,
      'kubeproxy_network_programming_duration_seconds',
      '[ALPHA] In Cluster Network Programming Latency in seconds',
      programmingBuckets,
    )
    this.#eventToKernel = histogram(
      registry,
      'viaduct_event_to_kernel_seconds',
      'Time from the event of an object to the last acknowledgement of the kernel',
      shortBuckets,
    )
    this.#noLocalEndpoints = gauge(registry, 'kubeproxy_sync_proxy_rules_no_local_endpoints_total', {
      help: '[ALPHA] Number of services with a Local traffic policy and no endpoints',
      labelNames: ['ip_family', 'traffic_policy'],
    })
    this.#frontendConflicts = familyGauge(
      registry,
      'viaduct_frontend_conflicts',
      'Addresses and ports that a Service asks for and does not get: another Service has them, or the node needs them; the log names them',
    )
    this.#lastSync = familyGauge(
      registry,
      'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
      '[ALPHA] The last time proxy rules were successfully synced',
    )
    this.#lastQueued = familyGauge(
      registry,
      'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
      '[ALPHA] The last time a sync of proxy rules was queued',
    )
    this.#conntrackSync = histogram(
      registry,
      'kubeproxy_conntrack_reconciler_sync_duration_seconds',
      '[ALPHA] ReconcileConntrackFlowsLatency latency in seconds',
      kubeProxyBuckets,
    )
    this.#conntrackDeleted = familyCounter(
      registry,
      'kubeproxy_conntrack_reconciler_deleted_entries_total',
      '[ALPHA] Cumulative conntrack flows deleted by conntrack reconciler',
    )
    this.#dirtyRoutes = familyCounter(
      registry,
      'viaduct_dirty_routes_total',
      'Service ports that were compiled again after a change',
    )
    this.#ledgerObjects = gauge(registry, 'viaduct_ledger_objects', {
      help: 'Kernel objects that Viaduct owns, without the fixed ones of the mode; kind: virtual-server, vip (ipvs), chain, frontend (iptables), frontend, endpoint (nftables, and iptables in the flavour nft), vip, relay-service, relay-listener (userspace)',
      labelNames: ['ip_family', 'kind'],
    })
    this.#operations = counter(registry, 'viaduct_sync_operations_total', {
      help: 'Kernel operations by outcome; result: applied, failed',
      labelNames: ['ip_family', 'operation', 'result'],
    })
    this.#errors = counter(registry, 'viaduct_kernel_errors_total', {
      help: 'Kernel operations that failed, by errno',
      labelNames: ['ip_family', 'operation', 'code'],
    })
    this.#drift = counter(registry, 'viaduct_drift_total', {
      help: 'Kernel objects that another program changed, and that Viaduct found different from the desired state',
      labelNames: ['ip_family', 'kind'],
    })
  }

  bind(family: IpFamilyLabel): FamilyMetrics {
    const label = { ip_family: family }
    const operations = new Map<string, OperationMetrics>()
    const ledgerObjects = new Map<string, Level>()
    return {
      syncDurationSeconds: this.#syncDuration.labels(label),
      networkProgrammingSeconds: this.#programming.labels(label),
      eventToKernelSeconds: this.#eventToKernel.labels(label),
      ...this.#iptables.bind(family),
      ...this.#nftables.bind(family),
      noLocalEndpoints: (policy) => this.#noLocalEndpoints.labels({ ...label, traffic_policy: policy }),
      frontendConflicts: this.#frontendConflicts.labels(label),
      lastSyncTimestampSeconds: this.#lastSync.labels(label),
      lastQueuedTimestampSeconds: this.#lastQueued.labels(label),
      conntrackSyncSeconds: this.#conntrackSync.labels(label),
      conntrackDeleted: this.#conntrackDeleted.labels(label),
      dirtyRoutes: this.#dirtyRoutes.labels(label),
      ledgerObjects: (kind) => {
        const known = ledgerObjects.get(kind)
        if (known !== undefined) return known
        const bound = this.#ledgerObjects.labels({ ...label, kind })
        ledgerObjects.set(kind, bound)
        return bound
      },
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

interface ApiRequestReport {
  readonly host: string
  readonly method: string
  /** Status of the answer; `<error>`: no answer. */
  readonly code: string
  /** Time until the answer began. */
  readonly seconds: number
}

const requestBuckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]

/** Registers the metrics. Call the returned function for each request. */
function openApiMetrics(registry: Registry): (report: ApiRequestReport) => void {
  const durations = new Histogram({
    name: 'rest_client_request_duration_seconds',
    help: '[ALPHA] Request latency in seconds. Broken down by verb, and host.',
    labelNames: ['verb', 'host'],
    buckets: requestBuckets,
    registers: [registry],
  })
  const results = counter(registry, 'rest_client_requests_total', {
    help: '[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.',
    labelNames: ['code', 'method', 'host'],
  })
  return ({ host, method, code, seconds }) => {
    durations.observe({ verb: method, host }, seconds)
    results.inc({ code, method, host })
  }
}
