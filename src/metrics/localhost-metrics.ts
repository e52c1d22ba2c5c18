// Metrics of kube-proxy's gate KubeProxyNFTablesLocalhostNodePorts, read per scrape.
import { Counter, Gauge, type Registry } from 'prom-client'
import type { IpFamily } from '../address.js'
import type { IpFamilyLabel } from './kinds.js'

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
