// What the kernel, and our side of it, count anyway: read when somebody asks.
import { Counter, type Registry } from 'prom-client'

/** Packets that rules of iptables mode met; never less than before. */
export interface PacketTotals {
  /** Dropped, as connection tracking did not know what to make of them. */
  readonly invalidDropped: number
  /** That opened a connection to a node port on a loopback address. */
  readonly localhostAccepted: number
}

export interface KernelFacts {
  /** Calls into the addon so far, by part of the kernel. */
  readonly calls: () => ReadonlyMap<string, number>
  /** Resolves with undefined in modes without such rules; where it rejects, the samples of the scrape are missing. */
  readonly packets: () => Promise<PacketTotals | undefined>
}

/** Registers them, once. */
export function openKernelMetrics(registry: Registry, { calls, packets }: KernelFacts): void {
  registry.registerMetric(
    new Counter({
      name: 'viaduct_kernel_calls_total',
      help: 'Calls into the kernel, by its part; one call may hold many operations',
      labelNames: ['subsystem'],
      registers: [],
      collect() {
        this.reset()
        for (const [subsystem, count] of calls()) this.inc({ subsystem }, count)
      },
    }),
  )
  let reading: Promise<PacketTotals | undefined> | undefined
  // All metrics of a scrape are collected in the same turn: one reading does for them.
  const readOnce = async (): Promise<PacketTotals | undefined> => {
    reading ??= packets().finally(() => (reading = undefined))
    return await reading
  }
  const onDemand = (name: string, help: string, take: (totals: PacketTotals) => number): void =>
    registry.registerMetric(
      new Counter({
        name,
        help,
        registers: [],
        async collect() {
          this.reset()
          const totals = await readOnce().catch(() => undefined)
          if (totals === undefined) this.remove()
          else this.inc(take(totals))
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
