// Metrics of the relay, read per scrape.
import { Counter, Gauge, type Registry } from 'prom-client'

/** Totals since the start of the relay, and current numbers. */
export interface RelayTotals {
  readonly listeners: number
  readonly connections: number
  readonly flows: number
  readonly acceptedConnections: number
  readonly failedConnections: number
  readonly refusedConnections: number
  readonly shedConnections: number
  readonly startedFlows: number
  readonly evictedFlows: number
  readonly spentHops: number
  readonly receivedBytes: number
  readonly sentBytes: number
}

const gauges: Readonly<Record<string, readonly [field: keyof RelayTotals, help: string]>> = {
  viaduct_relay_listeners: ['listeners', 'Open listeners of the relay'],
  viaduct_relay_connections: ['connections', 'TCP connections that the relay carries'],
  viaduct_relay_flows: ['flows', 'UDP flows that the relay carries'],
}

const counters: Readonly<Record<string, readonly [field: keyof RelayTotals, help: string]>> = {
  viaduct_relay_accepted_connections_total: [
    'acceptedConnections',
    'TCP connections that the relay accepted',
  ],
  viaduct_relay_failed_connections_total: [
    'failedConnections',
    'TCP connections that the relay closed because no endpoint accepted them',
  ],
  viaduct_relay_refused_connections_total: [
    'refusedConnections',
    'TCP connections that the relay refused, by policy or source range',
  ],
  viaduct_relay_shed_connections_total: [
    'shedConnections',
    'TCP connections that the relay refused because file descriptors were short',
  ],
  viaduct_relay_started_flows_total: ['startedFlows', 'UDP flows that the relay started'],
  viaduct_relay_evicted_flows_total: [
    'evictedFlows',
    'UDP flows that the relay ended early, to make room for newer ones',
  ],
  viaduct_relay_spent_hops_total: [
    'spentHops',
    'TCP connections and UDP datagrams that the relay discarded because they came with hop limit 1',
  ],
  viaduct_relay_received_bytes_total: ['receivedBytes', 'Bytes that the relay received from clients'],
  viaduct_relay_sent_bytes_total: ['sentBytes', 'Bytes that the relay sent to clients'],
}

/**
 * Registers the metrics, once per registry. `read` resolves with undefined while the relay is not in use: then a scrape has no samples of
 * them. The same if it rejects, which is a bug.
 */
export function openRelayMetrics(registry: Registry, read: () => Promise<RelayTotals | undefined>): void {
  // One reading for all metrics of a scrape.
  let reading: Promise<RelayTotals | undefined> | undefined
  const totals = async (): Promise<RelayTotals | undefined> => {
    reading ??= read()
      .catch(() => undefined)
      .finally(() => {
        reading = undefined
      })
    return await reading
  }
  for (const [name, [field, help]] of Object.entries(gauges)) {
    registry.registerMetric(
      new Gauge({
        name,
        help,
        registers: [],
        async collect() {
          const present = await totals()
          if (present === undefined) this.remove()
          else this.set(present[field])
        },
      }),
    )
  }
  for (const [name, [field, help]] of Object.entries(counters)) {
    registry.registerMetric(
      new Counter({
        name,
        help,
        registers: [],
        async collect() {
          const present = await totals()
          if (present === undefined) return this.remove()
          // In the same turn as the sample, because another scrape may be collecting too.
          this.reset()
          this.inc(present[field])
        },
      }),
    )
  }
}
