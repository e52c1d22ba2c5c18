// Counters of the kernel and of the addon, read per scrape.
import { Counter, type Registry } from 'prom-client'
import type { Clock } from '../clock.js'

/** Packets that rules of iptables mode matched; the numbers never decrease. */
export interface PacketTotals {
  /** Dropped packets that connection tracking calls INVALID. */
  readonly invalidDropped: number
  /** Packets that opened a connection to a node port on a loopback address. */
  readonly localhostAccepted: number
}

export interface KernelFacts {
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
