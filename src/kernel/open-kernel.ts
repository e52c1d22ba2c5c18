import type { IpFamily } from '../address.js'
import { systemClock } from '../clock.js'
import { listNftTables, readActiveTables } from './xtables/active-tables.js'
import type { Addon, PeerCredentials } from './addon.js'
import type { Conntrack } from './conntrack/conntrack.js'
import { describeXtTable } from './xtables/describe.js'
import { isolatedAddon } from './isolated-addon.js'
import type { Ipset } from './ipset/ipset.js'
import type { Ipvs } from './ipvs/ipvs.js'
import { type KernelLook, type LookPace, lookPace } from './look/kernel-look.js'
import type { Ports } from './ports/ports.js'
import { noPortStore, type PortStore, RealPorts } from './ports/real-ports.js'
import type { Links } from './route/links.js'
import { loadAddon } from './loader.js'
import { type ChainPlace, findMarkUses, type MarkUse } from './marks/mark-uses.js'
import type { NftChains } from './nftables/nft-chains.js'
import { RealConntrack } from './conntrack/real-conntrack.js'
import { RealIpset } from './ipset/real-ipset.js'
import { RealIpvs } from './ipvs/real-ipvs.js'
import { RealKernelLook } from './look/real-kernel-look.js'
import { RealLinks } from './route/real-links.js'
import type { NfActiveChain, Nftables } from './nftables/nftables.js'
import { RealNftChains } from './nftables/real-nft-chains.js'
import { RealNftables } from './nftables/real-nftables.js'
import { RealRelay } from './relay/real-relay.js'
import { RealRoutes } from './route/real-routes.js'
import { RealSysctl } from './system/real-sysctl.js'
import { RealXtables } from './xtables/real-xtables.js'
import { CallCounts, toKernelError } from './request-queue.js'
import type { Relay } from './relay/relay.js'
import type { Routes } from './route/routes.js'
import type { Sysctl } from './system/sysctl.js'
import { findForwardBarriers, findNftBarrier, type NfForwardBarrier } from './xtables/nft/barrier.js'
import { NftXtables } from './xtables/nft/nft-xtables.js'
import type { XtBarrier, XtFlavour, XtHookPlace, XtTableName, Xtables } from './xtables/xtables.js'

/** The parts of the kernel that Viaduct programs. */
export interface Kernel {
  readonly ipvs: Ipvs
  readonly routes: Routes
  readonly links: Links
  readonly sysctl: Sysctl
  readonly conntrack: Conntrack
  readonly ipset: Ipset
  readonly nftChains: NftChains
  readonly nftables: Nftables
  readonly ports: Ports
  /** Its threads start with the first call. */
  readonly relay: Relay
  /** The table of a family. Its desired content lives as long as the kernel is open. Default: the legacy table. */
  xtables(family: IpFamily, table: XtTableName, flavour?: XtFlavour): Xtables
  /** The tables that exist in a flavour, by default legacy. Opening another legacy table would create it. Throws KernelError. */
  activeTables(family: IpFamily, flavour?: XtFlavour): Promise<readonly XtTableName[]>
  /**
   * The first barrier of a built-in chain of an existing table, of any program. undefined: packets can pass, or the kernel has no such
   * chain. Throws KernelError. NB: a request for a legacy table that does not exist would create it.
   */
  findBarrier(place: XtHookPlace, flavour: XtFlavour): Promise<XtBarrier | undefined>
  /** The barriers of the chains of nf_tables at hook forward, of any program. Throws KernelError. */
  forwardBarriers(): Promise<readonly NfForwardBarrier[]>
  /** The look at the legacy tables of these families, of which there may be none. The same families get the same object. */
  look(families: readonly IpFamily[]): KernelLook
  /** sd_notify(3): sends `state` to `socket`. In the addon because Node has no Unix datagram sockets. Throws KernelError. */
  notifyServiceManager(socket: string, state: string): void
  /** SO_PEERCRED of unix(7), by the descriptor of an accepted connection. Throws KernelError. */
  peerCredentials(fd: number): PeerCredentials
  /** Counts of calls into the addon, by part of the kernel. */
  readonly calls: ReadonlyMap<string, number>
  /** For a stop: no call waits for the x_tables lock any more. A call that waits now throws EAGAIN. */
  hurry(): void
  /** Waits for the calls in flight. Idempotent. */
  close(): Promise<void>
}

/** Reads of the rules of other programs. */
export interface ForeignRules {
  /** All chains of nf_tables in tables that are not dormant, of any program. Throws KernelError. */
  activeChains(): Promise<readonly NfActiveChain[]>
  /** Rules of any program that use the packet mark (`findMarkUses`). Throws KernelError. */
  findMarkUses(isWanted: (place: ChainPlace) => boolean): Promise<readonly MarkUse[]>
}

export interface KernelOptions {
  /** The addon's file (VIADUCT_ADDON). Default: beside the program, or in its build folder. */
  readonly addonPath?: string | undefined
  /** Default /proc/sys. */
  readonly sysctlRoot?: string
  /** Default `lookPace`. */
  readonly lookPace?: LookPace
  /** Default: no service manager. */
  readonly portStore?: PortStore
  /**
   * The sockets are in an empty network namespace of their own, for probes. Needs CAP_SYS_ADMIN; without it, calls throw KernelError
   * EPERM. Files under /proc show this process's namespace nevertheless.
   */
  readonly isIsolated?: boolean
}

/**
 * The real kernel. This call opens nothing. The first call of a part loads the addon (ConfigError if it cannot) and opens the part's
 * socket in the network namespace of that moment.
 *
 * Each part, for both families, has one call in flight on libuv's thread pool. One thread waits for events, one looks at the kernel
 * once a second. A call that finds no free thread waits some milliseconds, or longer at a start, when the kernel loads modules for
 * other parts; file reads and name lookups share the pool. The launcher sets six threads (`launch.cts`); libuv's default is four.
 * With four threads, too, both waits end within seconds and queue again behind the other requests. Each x_tables table is a part and
 * holds its thread while it waits for the lock: at most two tables at a time. A clean-up of flows holds a thread while it runs,
 * 0.2 s for 100,000 flows.
 */
export function openKernel(options: KernelOptions = {}): Kernel & ForeignRules {
  let loaded: Addon | undefined
  const addon = (): Addon => (loaded ??= openAddon(options))
  const calls = new CallCounts()
  const ipvs = new RealIpvs(addon, calls)
  const routes = new RealRoutes(addon, calls)
  const links = new RealLinks(addon, calls)
  const conntrack = new RealConntrack(addon, calls)
  const ipset = new RealIpset(addon, calls)
  const nftChains = new RealNftChains(addon, calls)
  const nftables = new RealNftables(addon, calls)
  const ports = new RealPorts(addon, options.portStore ?? noPortStore, calls)
  const relay = new RealRelay(addon, calls, systemClock)
  const xtables = new Map<string, RealXtables>()
  let isHurried = false
  const legacyTable = (family: IpFamily, table: XtTableName): RealXtables => {
    const key = describeXtTable(family, table)
    const known = xtables.get(key)
    if (known !== undefined) return known
    const made = new RealXtables(addon, { family, table }, calls)
    if (isHurried) made.hurry()
    xtables.set(key, made)
    return made
  }
  const nftXtables = new Map<string, NftXtables>()
  const nftTable = (family: IpFamily, table: XtTableName): NftXtables => {
    const key = describeXtTable(family, table)
    const made = nftXtables.get(key) ?? new NftXtables({ family, table }, nftables, ipset)
    nftXtables.set(key, made)
    return made
  }
  const looks = new Map<string, RealKernelLook>()
  return {
    ipvs,
    routes,
    links,
    conntrack,
    ipset,
    nftChains,
    nftables,
    ports,
    relay,
    calls: calls.bySubsystem,
    sysctl: new RealSysctl(options.sysctlRoot ?? '/proc/sys'),
    xtables: (family, table, flavour = 'legacy') =>
      flavour === 'nft' ? nftTable(family, table) : legacyTable(family, table),
    findBarrier: async (place, flavour) =>
      flavour === 'nft'
        ? await findNftBarrier(nftables, place)
        : await legacyTable(place.family, place.table).barrier(place.hook),
    forwardBarriers: async () => await findForwardBarriers(nftables),
    ...foreignRules(nftables, legacyTable),
    activeTables: async (family, flavour = 'legacy') =>
      flavour === 'nft' ? await listNftTables(family, nftables) : await readActiveTables(family, '/proc/net'),
    look: (families) => {
      const key = families.join()
      const look = looks.get(key) ?? new RealKernelLook(addon, families, options.lookPace ?? lookPace, calls)
      looks.set(key, look)
      return look
    },
    notifyServiceManager: (socket, state) => atOnce(() => addon().notifyServiceManager(socket, state)),
    peerCredentials: (fd) => atOnce(() => addon().peerCredentials(fd)),
    hurry: () => {
      isHurried = true
      for (const table of xtables.values()) table.hurry()
    },
    close: async () => {
      const tables = [...xtables.values(), ...nftXtables.values()]
      const netfilter = [conntrack, ipset, nftChains, nftables, ...tables]
      const parts = [ipvs, routes, links, ports, relay, ...netfilter, ...looks.values()]
      await Promise.all(parts.map((part) => part.close()))
    },
  }
}

function openAddon({ addonPath, isIsolated = false }: KernelOptions): Addon {
  const addon = loadAddon({ addonPath, moduleUrl: import.meta.url })
  return isIsolated ? isolatedAddon(addon) : addon
}

/** A call of the addon that does not wait. Throws KernelError. */
function atOnce<Result>(call: () => Result): Result {
  try {
    return call()
  } catch (error) {
    throw toKernelError(error, 'addon')
  }
}

function foreignRules(
  nftables: RealNftables,
  legacyTable: (family: IpFamily, table: XtTableName) => RealXtables,
): ForeignRules {
  const reader = {
    activeTables: async (family: IpFamily) => await readActiveTables(family, '/proc/net'),
    legacyUses: async (family: IpFamily, table: XtTableName) => await legacyTable(family, table).markUses(),
    nftChains: async () => await nftables.activeChains(),
    nftRules: async (chain: NfActiveChain) => await nftables.rulesOf(chain),
  }
  return {
    activeChains: async () => await nftables.activeChains(),
    findMarkUses: async (isWanted) => await findMarkUses(reader, isWanted),
  }
}
