// The parts of the kernel: those of the running kernel, or those of a dry run, which only read it.
import { systemClock } from '../clock.js'
import type { Addon } from './addon.js'
import type { Conntrack } from './conntrack/conntrack.js'
import { RealConntrack } from './conntrack/real-conntrack.js'
import { dryRunConntrack, dryRunPorts, dryRunRelay, dryRunSysctl } from './dry-run/dry-run-host.js'
import { dryRunIpset } from './dry-run/dry-run-ipset.js'
import { dryRunIpvs } from './dry-run/dry-run-ipvs.js'
import { dryRunNetwork } from './dry-run/dry-run-network.js'
import { dryRunNftables } from './dry-run/dry-run-nftables.js'
import type { TakeTransaction } from './dry-run/transaction.js'
import type { Ipset } from './ipset/ipset.js'
import { RealIpset } from './ipset/real-ipset.js'
import type { Ipvs } from './ipvs/ipvs.js'
import { RealIpvs } from './ipvs/real-ipvs.js'
import type { NftChains } from './nftables/nft-chains.js'
import type { Nftables } from './nftables/nftables.js'
import { RealNftChains } from './nftables/real-nft-chains.js'
import { RealNftables } from './nftables/real-nftables.js'
import type { KernelModules, PartModule } from './system/modules.js'
import type { Ports } from './ports/ports.js'
import { type PortStore, RealPorts } from './ports/real-ports.js'
import type { Relay } from './relay/relay.js'
import { RealRelay } from './relay/real-relay.js'
import type { CallCounts } from './request-queue.js'
import type { Links, Routes } from './route/routes.js'
import { RealLinks, RealRoutes } from './route/real-routes.js'
import { RealSysctl, type Sysctl } from './system/sysctl.js'
import type { XtListing } from './xtables/listing.js'

/** The parts without tables of x_tables. */
export interface KernelParts {
  readonly ipvs: Ipvs
  readonly routes: Routes
  readonly links: Links
  readonly sysctl: Sysctl
  readonly conntrack: Conntrack
  readonly ipset: Ipset
  readonly nftChains: NftChains
  readonly nftables: Nftables
  readonly ports: Ports
  readonly relay: Relay
  /** Names of all sets. Throws KernelError. */
  readonly setNames: () => Promise<readonly string[]>
}

interface PartsOptions {
  readonly addon: () => Addon
  readonly calls: CallCounts
  readonly portStore: PortStore
  readonly sysctlRoot: string
}

/** The parts of the running kernel. Opens nothing. */
export function openParts({
  addon,
  calls,
  portStore,
  sysctlRoot,
}: PartsOptions): KernelParts & { readonly nftables: RealNftables; readonly routes: RealRoutes } {
  const ipset = new RealIpset(addon, calls)
  return {
    ipvs: new RealIpvs(addon, calls),
    routes: new RealRoutes(addon, calls),
    links: new RealLinks(addon, calls),
    sysctl: new RealSysctl(sysctlRoot),
    conntrack: new RealConntrack(addon, calls),
    ipset,
    nftChains: new RealNftChains(addon, calls),
    nftables: new RealNftables(addon, calls),
    ports: new RealPorts(addon, portStore, calls),
    relay: new RealRelay(addon, calls, systemClock),
    setNames: async () => (await ipset.sets()).map(({ name }) => name),
  }
}

export interface DryRunOptions extends Pick<PartsOptions, 'sysctlRoot'> {
  readonly modules: KernelModules
  /** All tables of x_tables, as the transactions leave them. Throws KernelError. */
  readonly tables: () => Promise<readonly XtListing[]>
  readonly take: TakeTransaction
}

/** The parts of a dry run: they read `real`, and `take` gets what would change it. */
export function dryRunParts(
  real: KernelParts,
  { sysctlRoot, modules, tables, take }: DryRunOptions,
): KernelParts {
  const isLoaded = (module: PartModule): boolean => modules.canAsk(module)
  const ipset = dryRunIpset(real.ipset, { isLoaded: isLoaded('ip_set'), tables, take })
  return {
    ...dryRunNftables(real, {
      isLoaded: isLoaded('nf_tables'),
      // The checks of a transaction would load modules.
      canProbe: !modules.canLoad || modules.state('nf_tables') === 'absent',
      take,
    }),
    ipvs: dryRunIpvs(real.ipvs, {
      isLoaded: isLoaded('ip_vs'),
      hasScheduler: (scheduler) => modules.state(`ip_vs_${scheduler}`) !== 'absent',
      take,
    }),
    ...dryRunNetwork(real, take),
    sysctl: dryRunSysctl(real.sysctl, sysctlRoot, take),
    conntrack: dryRunConntrack(real.conntrack, take),
    ipset,
    ports: dryRunPorts(real.ports, isLoaded('tcp_diag') && isLoaded('udp_diag'), take),
    relay: dryRunRelay(real.relay, take),
    setNames: async () => (await ipset.sets()).map(({ name }) => name),
  }
}
