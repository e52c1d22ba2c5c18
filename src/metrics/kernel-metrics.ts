// What the kernel, and our side of it, count anyway: read when somebody asks.
import { Counter, type Registry } from 'prom-client'
import type { Clock } from '../clock.js'

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
  /** Resolves with undefined in modes without such rules; where it rejects, which is a bug, the samples of the scrape are missing. */
  readonly packets: () => Promise<PacketTotals | undefined>
  readonly clock: Pick<Clock, 'schedule'>
}

/** A scrape waits so long for packets, as a table may be locked by others; then it has those of the reading before. */
const patienceMs = 1000

/** Registers them, once. */
export function openKernelMetrics(registry: Registry, facts: KernelFacts): void {
  registry.registerMetric(
    new Counter({
      name: 'viaduct_kernel_calls_total',
      help: 'Calls into the addon, by part of the kernel; one call may hold many operations',
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
          // In one turn with the sample: another scrape may be collecting too.
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

/** Of one reading for all who ask while it is under way; of the last one where it takes too long. */
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
