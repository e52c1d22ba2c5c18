import type { IpFamily } from '../address.js'
import type { Addon, PeerCredentials } from './addon.js'
import type { FirewallChain, FirewallScope } from './firewall/firewall.js'
import { readFirewall } from './firewall/read-firewall.js'
import { isolatedAddon, loadAddon } from './loader.js'
import { type KernelLook, type LookPace, lookPace, RealKernelLook } from './look/kernel-look.js'
import { type ChainPlace, findMarkUses, type MarkUse } from './marks/mark-uses.js'
import type { NfActiveChain } from './nftables/nftables.js'
import type { RealNftables } from './nftables/real-nftables.js'
import { type KernelParts, openParts, dryRunParts } from './open-parts.js'
import { quietLook } from './dry-run/dry-run-host.js'
import type { TakeTransaction } from './dry-run/transaction.js'
import { noPortStore, type PortStore } from './ports/real-ports.js'
import { CallCounts, toKernelError } from './request-queue.js'
import type { PolicyRule } from './route/routes.js'
import { isWithoutLegacy, KernelModules } from './system/modules.js'
import type { XtPlace } from './xtables/encode.js'
import { KernelTables } from './xtables/kernel-tables.js'
import type { XtListing } from './xtables/listing.js'
import { findForwardBarriers, type NfHookBarrier } from './xtables/nft/barrier.js'
import type { XtBarrier, XtFlavour, XtHookPlace, XtTableName, Xtables } from './xtables/xtables.js'

/** The parts of the kernel that Viaduct programs. */
export interface Kernel extends Omit<KernelParts, 'setNames'> {
  /** The table of a family. Its desired content lives as long as the kernel is open. Default: the legacy table. */
  xtables(family: IpFamily, table: XtTableName, flavour?: XtFlavour): Xtables
  /** The tables that exist in a flavour, by default legacy. Opening another legacy table would create it. Throws KernelError. */
  activeTables(family: IpFamily, flavour?: XtFlavour): Promise<readonly XtTableName[]>
  /**
   * The first barrier of a built-in chain of an existing table, of any program. undefined: packets can pass, or the kernel has no such
   * chain. Throws KernelError. NB: a request for a legacy table that does not exist would create it.
   */
  findBarrier(place: XtHookPlace, flavour: XtFlavour): Promise<XtBarrier | undefined>
  /**
   * All chains of a table, of any program; empty: nf_tables has no such table. Throws KernelError. NB: a request for a legacy table that
   * does not exist would create it, except in a dry run.
   */
  listTable(place: XtPlace, flavour: XtFlavour): Promise<XtListing>
  /** The barriers of the chains of nf_tables at hook forward, of any program. Throws KernelError. */
  forwardBarriers(): Promise<readonly NfHookBarrier[]>
  /**
   * The chains that packets of a family meet at their hooks, and the chains to which these may lead, of any program: of nf_tables, and of
   * the legacy tables that exist. Viaduct's own chains in the legacy tables have no rules. Throws KernelError.
   */
  firewall(family: IpFamily, scope: FirewallScope): Promise<readonly FirewallChain[]>
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
  /** The policy routing rules of a family, of any program, in the order of their priorities. Throws KernelError. */
  policyRules(family: IpFamily): Promise<readonly PolicyRule[]>
}

/** The clock of the machine, as the kernel keeps it. */
export interface KernelClock {
  /** The status bits of adjtimex(2) (STA_* of linux/timex.h). Throws KernelError. */
  clockStatus(): number
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
   * A dry run: this function gets each transaction in the place of the kernel, and the caller an answer as if the kernel had taken it. No call
   * changes the kernel, loads a module, or opens a socket that others see. Reads show the kernel as it is. Watches see nothing. Default:
   * the kernel gets the transactions.
   */
  readonly dryRun?: TakeTransaction | undefined
  /** The modules by which a dry run decides what it may ask. Default: those that the files list. */
  readonly modules?: KernelModules
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
 * Each part, for both families, has one call in flight on libuv's thread pool. Some have a second one for reads, which writes do not
 * wait for: conntrack for lists of flows, IPVS for dumps with counters, each x_tables table for counters of rules. One thread waits for
 * events, one looks at the kernel once a second. A call that finds no free thread waits some milliseconds, or longer at a start, when the
 * kernel loads modules for other parts; file reads and name lookups share the pool. The launcher sets six threads (`launch.cts`);
 * libuv's default is four. With four threads, too, both waits end within seconds and queue again behind the other requests. Each x_tables
 * table is a part and holds its thread while it waits for the lock: at most two tables at a time. A clean-up of flows holds a thread while
 * it runs, 0.2 s for 100,000 flows. So does a list of flows for a command.
 */
export function openKernel(options: KernelOptions = {}): Kernel & ForeignRules & KernelClock {
  let loaded: Addon | undefined
  const addon = (): Addon => (loaded ??= openAddon(options))
  const calls = new CallCounts()
  const { dryRun, sysctlRoot = '/proc/sys', portStore = noPortStore } = options
  const { modules = new KernelModules() } = options
  const real = openParts({ addon, calls, portStore, sysctlRoot })
  const { setNames, ...parts } =
    dryRun === undefined
      ? real
      : dryRunParts(real, { sysctlRoot, modules, take: dryRun, tables: async () => await tables.remaining() })
  const tables = new KernelTables({
    ...parts,
    addon,
    calls,
    take: dryRun,
    isAbsent: (family) => dryRun !== undefined && isWithoutLegacy(family, modules),
    setNames,
  })
  const looks = new Map<string, KernelLook>()
  const openLook = (families: readonly IpFamily[]): KernelLook =>
    dryRun === undefined
      ? new RealKernelLook(addon, families, options.lookPace ?? lookPace, calls)
      : quietLook()
  return {
    ...parts,
    calls: calls.bySubsystem,
    xtables: (family, table, flavour) => tables.open(family, table, flavour),
    findBarrier: async (place, flavour) => await tables.findBarrier(place, flavour),
    listTable: async (place, flavour) => await tables.list(place, flavour),
    forwardBarriers: async () => await findForwardBarriers(parts.nftables),
    ...foreignRules(real.nftables, tables, dryRun === undefined || modules.canAsk('nf_tables')),
    policyRules: async (family) => await real.routes.policyRules(family),
    activeTables: async (family, flavour) => await tables.active(family, flavour),
    look: (families) => {
      const key = families.join()
      const look = looks.get(key) ?? openLook(families)
      looks.set(key, look)
      return look
    },
    notifyServiceManager: (socket, state) => atOnce(() => addon().notifyServiceManager(socket, state)),
    clockStatus: () => atOnce(() => addon().clockStatus()),
    peerCredentials: (fd) => atOnce(() => addon().peerCredentials(fd)),
    hurry: () => tables.hurry(),
    close: async () => {
      const { ipvs, routes, links, ports, relay, conntrack, ipset, nftChains, nftables } = parts
      const netfilter = [conntrack, ipset, nftChains, nftables, tables]
      const all = [ipvs, routes, links, ports, relay, ...netfilter, ...looks.values()]
      await Promise.all(all.map((part) => part.close()))
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

const noChains = {
  chainsOf: async () => await Promise.resolve([]),
  rulesOf: async () => await Promise.resolve([]),
}

/** `canAsk` false: nf_tables is not loaded, and has no chains. */
function foreignRules(
  nftables: RealNftables,
  tables: KernelTables,
  canAsk: boolean,
): Omit<ForeignRules, 'policyRules'> & Pick<Kernel, 'firewall'> {
  const activeChains = async (): Promise<readonly NfActiveChain[]> =>
    canAsk ? await nftables.activeChains() : []
  const reader = {
    activeTables: async (family: IpFamily) => await tables.active(family),
    legacyUses: async (family: IpFamily, table: XtTableName) => await tables.markUses({ family, table }),
    nftChains: activeChains,
    nftRules: async (chain: NfActiveChain) => await nftables.rulesOf(chain),
  }
  return {
    firewall: async (family, scope) =>
      await readFirewall({ nftables: canAsk ? nftables : noChains, tables }, family, scope),
    activeChains,
    findMarkUses: async (isWanted) => await findMarkUses(reader, isWanted),
  }
}
