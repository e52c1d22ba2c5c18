import type { IpAddress, IpFamily } from '../address.js'
import type { Clock } from '../clock.js'
import type { Config, ProxyMode } from '../config/index.js'
import type { Synchronizer } from '../engine/index.js'
import type { Conntrack, FirewallChain, Links, Routes, Sysctl, XtFlavour } from '../kernel/index.js'
import type { PresentProblem } from '../log.js'
import type { NodeFacts } from '../node/index.js'

/** One series of a metric. */
export interface MetricValue {
  readonly labels: Readonly<Partial<Record<string, string | number>>>
  readonly value: number
}

/** The parts of a running agent that snapshots read. The functions are called for each snapshot. */
export interface Inspected {
  readonly config: Config
  /** The active mode. */
  readonly mode: ProxyMode
  /** The flavour of its rules of x_tables; undefined: it has none. */
  readonly flavour: XtFlavour | undefined
  readonly node: { readonly facts: NodeFacts; readonly isEligible: boolean }
  readonly synchronizer: Pick<Synchronizer, 'views' | 'passes' | 'onRunEnd'>
  /** The machine's addresses of a family, without the VIPs of ipvs mode. Throws KernelError. */
  readonly machineAddresses: (family: IpFamily) => Promise<readonly IpAddress[]>
  /** The kernel's routing. The functions throw KernelError. */
  readonly routing: {
    readonly lookUp: Routes['lookUp']
    readonly links: Links['list']
    readonly sysctl: Sysctl['read']
  }
  /** The rules at the hooks of packets, those of Viaduct's own table left out (Kernel.firewall). Throws KernelError. */
  readonly firewall: (family: IpFamily) => Promise<readonly FirewallChain[]>
  /** The connections that the kernel tracks (Conntrack.listFlows). Throws KernelError. */
  readonly flows: Conntrack['listFlows']
  /** Their numbers (Conntrack.countFlows). Throws KernelError. */
  readonly flowCounts: Conntrack['countFlows']
  /** The problems that are present now. */
  readonly problems: () => readonly PresentProblem[]
  /** The series of a metric; empty: there are none, or no such metric. */
  readonly metric: (name: string) => Promise<readonly MetricValue[]>
  /** Start of the process in Unix milliseconds. */
  readonly startedMs: number
  readonly clock: Pick<Clock, 'now' | 'unixMs' | 'pause'>
}
