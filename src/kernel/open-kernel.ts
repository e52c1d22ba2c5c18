import type { IpFamily } from '../address.js'
import { readActiveTables } from './xtables/active-tables.js'
import type { Addon } from './addon.js'
import type { Conntrack } from './conntrack/conntrack.js'
import { describeXtTable } from './xtables/describe.js'
import type { Ipset } from './ipset/ipset.js'
import type { Ipvs } from './ipvs/ipvs.js'
import type { KernelLook } from './look/kernel-look.js'
import type { Links } from './route/links.js'
import { loadAddon } from './loader.js'
import type { NftChains } from './nftables/nft-chains.js'
import { RealConntrack } from './conntrack/real-conntrack.js'
import { RealIpset } from './ipset/real-ipset.js'
import { RealIpvs } from './ipvs/real-ipvs.js'
import { RealKernelLook } from './look/real-kernel-look.js'
import { RealLinks } from './route/real-links.js'
import type { Nftables } from './nftables/nftables.js'
import { RealNftChains } from './nftables/real-nft-chains.js'
import { RealNftables } from './nftables/real-nftables.js'
import { RealRoutes } from './route/real-routes.js'
import { RealSysctl } from './system/real-sysctl.js'
import { RealXtables } from './xtables/real-xtables.js'
import { CallCounts, toKernelError } from './request-queue.js'
import type { Routes } from './route/routes.js'
import type { Sysctl } from './system/sysctl.js'
import type { XtTableName, Xtables } from './xtables/xtables.js'

/** Everything of the kernel that Viaduct programs. */
export interface Kernel {
  readonly ipvs: Ipvs
  readonly routes: Routes
  readonly links: Links
  readonly sysctl: Sysctl
  readonly conntrack: Conntrack
  readonly ipset: Ipset
  readonly nftChains: NftChains
  readonly nftables: Nftables
  /** The one of this family and table: what is wanted of it lives as long as the kernel is open. */
  xtables(family: IpFamily, table: XtTableName): Xtables
  /** The legacy tables that exist, whoever made them; asking one of the others would make it. Throws KernelError. */
  activeTables(family: IpFamily): Promise<readonly XtTableName[]>
  /** The one of these families. */
  look(families: readonly IpFamily[]): KernelLook
  /** Node has no such sockets: sd_notify(3) of `state` to `socket`. Throws KernelError. */
  notifyServiceManager(socket: string, state: string): void
  /** Calls into the addon so far, by part of the kernel. */
  readonly calls: ReadonlyMap<string, number>
  /** From now on nobody waits for the lock of other programs, and what waits throws EAGAIN. For a stop. */
  hurry(): void
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
 * Each part has one call in flight, for both families, on libuv's pool: one of its threads waits for events, one looks at the
 * kernel once a second, and a call that finds none free waits some milliseconds. At a start, when the parts are asked
 * beside each other, it may wait for modules that the kernel loads, and so do the files of the world. The launcher asks for six
 * threads (`launch.cts`), where libuv has four. With those too both waits end within seconds and queue again behind the files and names
 * that were asked for meanwhile. Each table of x_tables is a part of its own, and holds its thread while it waits for the lock: of
 * two families' tables two at a time.
 * A clean-up of flows holds one as long as it takes, 0.2 s for 100,000 of them.
 */
export function openKernel(options: KernelOptions = {}): Kernel {
  let loaded: Addon | undefined
  const addon = (): Addon =>
    (loaded ??= loadAddon({ addonPath: options.addonPath, moduleUrl: import.meta.url }))
  const calls = new CallCounts()
  const ipvs = new RealIpvs(addon, calls)
  const routes = new RealRoutes(addon, calls)
  const links = new RealLinks(addon, calls)
  const conntrack = new RealConntrack(addon, calls)
  const ipset = new RealIpset(addon, calls)
  const nftChains = new RealNftChains(addon, calls)
  const nftables = new RealNftables(addon, calls)
  const xtables = new Map<string, RealXtables>()
  const looks = new Map<string, RealKernelLook>()
  let isHurried = false
  return {
    ipvs,
    routes,
    links,
    conntrack,
    ipset,
    nftChains,
    nftables,
    calls: calls.bySubsystem,
    sysctl: new RealSysctl(options.sysctlRoot ?? '/proc/sys'),
    xtables: (family, table) => {
      const key = describeXtTable(family, table)
      const known = xtables.get(key)
      if (known !== undefined) return known
      const made = new RealXtables(addon, { family, table }, calls)
      if (isHurried) made.hurry()
      xtables.set(key, made)
      return made
    },
    activeTables: async (family) => await readActiveTables(family, '/proc/net'),
    look: (families) => {
      const key = families.join()
      const look = looks.get(key) ?? new RealKernelLook(addon, families, calls)
      looks.set(key, look)
      return look
    },
    notifyServiceManager: (socket, state) => {
      try {
        addon().notifyServiceManager(socket, state)
      } catch (error) {
        throw toKernelError(error, 'addon')
      }
    },
    hurry: () => {
      isHurried = true
      for (const table of xtables.values()) table.hurry()
    },
    close: async () => {
      const netfilter = [conntrack, ipset, nftChains, nftables, ...xtables.values()]
      const parts = [ipvs, routes, links, ...netfilter, ...looks.values()]
      await Promise.all(parts.map((part) => part.close()))
    },
  }
}
