// Counts of the kernel, of the addon and of the relay that a scrape reads.
import { Counter, type Registry, Gauge } from 'prom-client'
import type { Clock } from '../clock.js'
import type { IpFamily } from '../address.js'
import type { IpFamilyLabel } from './kinds.js'

/** Packets that rules of iptables mode matched; the numbers never decrease. */
export interface PacketTotals {
  /** Dropped packets that connection tracking calls INVALID. */
  readonly invalidDropped: number
  /** Packets that opened a connection to a node port on a loopback address. */
  readonly localhostAccepted: number
}

interface KernelFacts {
  /** Calls into the addon so far, by kernel subsystem. */
  readonly calls: () => ReadonlyMap<string, number>
  /** Resolves with undefined in modes without such rules. If it rejects, which is a bug, the scrape has no samples of them. */
  readonly packets: () => Promise<PacketTotals | undefined>
  readonly clock: Pick<Clock, 'schedule'>
}

/** Longest wait of a scrape for packet counts, because a table may be locked. After it the scrape has the counts of the last reading. */
const patienceMs = 1000

/** Registers the metrics, once per registry. */
export function openKernelMetrics(registry: Registry, facts: KernelFacts): void {
  registry.registerMetric(
    new Counter({
      name: 'viaduct_kernel_calls_total',
      help: 'Calls into the native addon by kernel subsystem, including those that only prepare a table; each may contain many operations',
      labelNames: ['subsystem'],
      registers: [],
      collect() {
        this.reset()
        for (const [subsystem, count] of facts.calls()) this.inc({ subsystem }, count)
      },
    }),
  )
  const totals = lastTotals(facts)
  const onDemand = (name: string, help: string, take: (totals: PacketTotals) => number): void =>
    registry.registerMetric(
      new Counter({
        name,
        help,
        registers: [],
        async collect() {
          const present = await totals()
          // In the same turn as the sample, because another scrape may be collecting too.
          if (present === undefined) this.remove()
          else {
            this.reset()
            this.inc(take(present))
          }
        },
      }),
    )
  onDemand(
    'kubeproxy_iptables_ct_state_invalid_dropped_packets_total',
    '[ALPHA] packets dropped by iptables to work around conntrack problems',
    ({ invalidDropped }) => invalidDropped,
  )
  onDemand(
    'kubeproxy_iptables_localhost_nodeports_accepted_packets_total',
    '[ALPHA] Number of packets accepted on nodeports of loopback interface',
    ({ localhostAccepted }) => localhostAccepted,
  )
}

/** Shares one reading between concurrent scrapes. Resolves with the last totals if a reading takes too long. */
function lastTotals({ packets, clock }: KernelFacts): () => Promise<PacketTotals | undefined> {
  let last: PacketTotals | undefined
  let reading: Promise<void> | undefined
  const read = async (): Promise<void> => {
    last = await packets().catch(() => undefined)
    reading = undefined
  }
  return async () => {
    reading ??= read()
    await orAfter(reading, clock)
    return last
  }
}

async function orAfter(reading: Promise<void>, clock: KernelFacts['clock']): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const cancel = clock.schedule(patienceMs, resolve)
    reading.finally(cancel).then(resolve, reject)
  })
}

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

/** The node ports of one family on its loopback address. */
export interface LocalhostNodePortTotals {
  /** Open listeners, TCP and UDP. */
  readonly listeners: number
  /** How often a listener could not be opened, retries included. */
  readonly creationFailures: number
}

/** By the families of the mode. undefined: the configuration does not ask for listeners of this family. */
export type LocalhostNodePortCounts = Readonly<Partial<Record<IpFamily, LocalhostNodePortTotals | undefined>>>

const labels: Readonly<Record<IpFamily, IpFamilyLabel>> = { ipv4: 'IPv4', ipv6: 'IPv6' }

type Sample = readonly [ip_family: IpFamilyLabel, totals: LocalhostNodePortTotals | undefined]

/**
 * Registers the metrics, once per registry. Names, labels and help texts are those of kube-proxy 1.37, which registers them in nftables
 * mode with the gate alone. No rule of Viaduct rejects packets to node ports on loopback addresses, so that these counters stay 0. As in
 * kube-proxy, TCP is among them only where no listener is asked for.
 */
export function openLocalhostNodePortMetrics(registry: Registry, read: () => LocalhostNodePortCounts): void {
  const samples = (): readonly Sample[] => {
    const counts = read()
    return (['ipv4', 'ipv6'] as const)
      .filter((family) => family in counts)
      .map((family) => [labels[family], counts[family]])
  }
  registry.registerMetric(
    new Gauge({
      name: 'kubeproxy_nftables_localhost_nodeport_listeners',
      help: '[ALPHA] Number of active localhost NodePort userspace proxy listeners.',
      labelNames: ['ip_family'],
      registers: [],
      collect() {
        this.reset()
        for (const [family, totals] of samples())
          if (totals !== undefined) this.set({ ip_family: family }, totals.listeners)
      },
    }),
  )
  registry.registerMetric(
    new Counter({
      name: 'kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total',
      help: '[ALPHA] Number of localhost NodePort userspace proxy listener creation failures.',
      labelNames: ['ip_family'],
      registers: [],
      collect() {
        this.reset()
        for (const [family, totals] of samples())
          if (totals !== undefined) this.inc({ ip_family: family }, totals.creationFailures)
      },
    }),
  )
  registry.registerMetric(
    new Counter({
      name: 'kubeproxy_nftables_localhost_nodeport_rejected_packets_total',
      help: '[ALPHA] Number of packets rejected on localhost NodePorts. UDP and SCTP are always rejected; TCP is rejected when the localhost NodePort proxy is not running',
      labelNames: ['ip_family', 'protocol'],
      registers: [],
      collect() {
        this.reset()
        for (const [family, totals] of samples())
          for (const protocol of totals === undefined ? ['TCP', 'UDP', 'SCTP'] : ['UDP', 'SCTP'])
            this.inc({ ip_family: family, protocol }, 0)
      },
    }),
  )
}
