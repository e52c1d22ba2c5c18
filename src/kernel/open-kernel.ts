import type { Addon } from './addon.js'
import type { Conntrack } from './conntrack.js'
import type { Ipvs } from './ipvs.js'
import type { Links } from './links.js'
import { loadAddon } from './loader.js'
import type { NftChains } from './nft-chains.js'
import { RealConntrack } from './real-conntrack.js'
import { RealIpvs } from './real-ipvs.js'
import { RealLinks } from './real-links.js'
import { RealNftChains } from './real-nft-chains.js'
import { RealRoutes } from './real-routes.js'
import { RealSysctl } from './real-sysctl.js'
import type { Routes } from './routes.js'
import type { Sysctl } from './sysctl.js'

/** Everything of the kernel that Viaduct programs. */
export interface Kernel {
  readonly ipvs: Ipvs
  readonly routes: Routes
  readonly links: Links
  readonly sysctl: Sysctl
  readonly conntrack: Conntrack
  readonly nftChains: NftChains
  /** Waits for what is in flight; idempotent. */
  close(): Promise<void>
}

export interface KernelOptions {
  /** The addon's file (VIADUCT_ADDON); default: beside the program, or in its build folder. */
  readonly addonPath?: string | undefined
  /** Default /proc/sys. */
  readonly sysctlRoot?: string
}

/**
 * The real kernel. Nothing is opened yet: the first call of each part loads the addon (ConfigError when there is none)
 * and opens its socket in the network namespace of that moment.
 *
 * Each part has one call in flight, for both families: with one watch, at most four threads of libuv's pool, which has
 * four, and three while nobody asks `links` (start-up, reconcile, clean-up). UV_THREADPOOL_SIZE needs no setting: a wait
 * for events ends within 250 ms and queues again behind the files and names that were asked for meanwhile.
 */
export function openKernel(options: KernelOptions = {}): Kernel {
  let loaded: Addon | undefined
  const addon = (): Addon =>
    (loaded ??= loadAddon({ addonPath: options.addonPath, moduleUrl: import.meta.url }))
  const ipvs = new RealIpvs(addon)
  const routes = new RealRoutes(addon)
  const links = new RealLinks(addon)
  const conntrack = new RealConntrack(addon)
  const nftChains = new RealNftChains(addon)
  return {
    ipvs,
    routes,
    links,
    conntrack,
    nftChains,
    sysctl: new RealSysctl(options.sysctlRoot ?? '/proc/sys'),
    close: async () => {
      await Promise.all([ipvs, routes, links, conntrack, nftChains].map((part) => part.close()))
    },
  }
}
