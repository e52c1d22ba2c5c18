// The parts of the kernel: those of the running kernel, or those of a plan on top of them.
import { systemClock } from '../clock.js'
import type { Addon } from './addon.js'
import type { Conntrack } from './conntrack/conntrack.js'
import { RealConntrack } from './conntrack/real-conntrack.js'
import type { Ipset } from './ipset/ipset.js'
import { RealIpset } from './ipset/real-ipset.js'
import type { Ipvs } from './ipvs/ipvs.js'
import { RealIpvs } from './ipvs/real-ipvs.js'
import type { NftChains } from './nftables/nft-chains.js'
import type { Nftables } from './nftables/nftables.js'
import { RealNftChains } from './nftables/real-nft-chains.js'
import { RealNftables } from './nftables/real-nftables.js'
import type { KernelModules, PartModule } from './system/modules.js'
import { type CountSetReferences, PlannedIpset } from './planned/planned-ipset.js'
import { PlannedIpvs } from './planned/planned-ipvs.js'
import { PlannedNetwork } from './planned/planned-network.js'
import { PlannedNftables } from './planned/planned-nftables.js'
import { PlannedConntrack, PlannedNftChains, PlannedPorts, PlannedRelay } from './planned/planned-parts.js'
import { PlannedSysctl } from './planned/planned-sysctl.js'
import type { Ports } from './ports/ports.js'
import { type PortStore, RealPorts } from './ports/real-ports.js'
import type { Relay } from './relay/relay.js'
import { RealRelay } from './relay/real-relay.js'
import type { CallCounts } from './request-queue.js'
import type { Links, Routes } from './route/routes.js'
import { RealLinks, RealRoutes } from './route/real-routes.js'
import { RealSysctl, type Sysctl } from './system/sysctl.js'

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

export interface PartsOptions {
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

/** The parts of a plan: they read `real` and change nothing. */
export function planParts(
  real: KernelParts,
  {
    sysctlRoot,
    modules,
    countReferences,
  }: Pick<PartsOptions, 'sysctlRoot'> & {
    readonly modules: KernelModules
    readonly countReferences: CountSetReferences
  },
): KernelParts {
  const isLoaded = (module: PartModule): boolean => modules.canAsk(module)
  const nftables = new PlannedNftables(real.nftables, {
    isLoaded: isLoaded('nf_tables'),
    // The checks of a dry run would load modules.
    canProbe: !modules.canLoad || modules.state('nf_tables') === 'absent',
  })
  const ipset = new PlannedIpset(real.ipset, isLoaded('ip_set'), countReferences)
  const network = new PlannedNetwork(real.links, real.routes)
  return {
    ipvs: new PlannedIpvs(real.ipvs, {
      isLoaded: isLoaded('ip_vs'),
      hasScheduler: (scheduler) => modules.state(`ip_vs_${scheduler}`) !== 'absent',
    }),
    routes: network,
    links: network,
    sysctl: new PlannedSysctl(real.sysctl, sysctlRoot),
    conntrack: new PlannedConntrack(),
    ipset,
    nftChains: new PlannedNftChains(nftables),
    nftables,
    ports: new PlannedPorts(real.ports, isLoaded('tcp_diag') && isLoaded('udp_diag')),
    relay: new PlannedRelay(),
    setNames: async () => await ipset.names(),
  }
}
