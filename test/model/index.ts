// The kernel in memory: one network namespace with the interfaces of src/kernel and the kernel's results and errnos.
// test/contract runs the same suites on this model and on the real kernel.
import type { IpFamily } from '../../src/address.js'
import type { XtTableName } from '../../src/kernel/xtables/xtables.js'
import { ModelConntrack, type ModelFlow } from './conntrack.js'
import { ModelIpset } from './ipset.js'
import { ModelIpvs } from './ipvs.js'
import { ModelKernelLook, type ModelTime } from './kernel-look.js'
import { ModelLinks } from './links.js'
import { ModelNetwork } from './network.js'
import { ModelNftChains } from './nft-chains.js'
import { ModelNftNamespace } from './nft-objects.js'
import { ModelNftables } from './nftables.js'
import { ModelRoutes } from './routes.js'
import { ModelSysctl } from './sysctl.js'
import { ModelXtNamespace, type ModelXtTable, type XtChains } from './xtables-table.js'
import { ModelXtables } from './xtables.js'

export type { Fault, FaultPlan, ModelBatches } from './faults.js'
export type {
  ModelConntrack,
  ModelFlow,
  ModelIpset,
  ModelIpvs,
  ModelLinks,
  ModelNftChains,
  ModelRoutes,
  ModelSysctl,
}
export type { ModelXtables, ModelXtTable, XtChains }
export { ModelNftables, ModelNftNamespace, ModelXtNamespace }

export interface ModelKernelOptions {
  /** False: addDummy() fails with EOPNOTSUPP. Default true. */
  readonly hasDummyModule?: boolean
  /** The settings that exist, with their values. Default: those of IPVS and forwarding. */
  readonly sysctls?: Readonly<Record<string, string>>
  /** Tables shared with another model kernel, such as one before a restart. Default: empty tables. */
  readonly xtNamespace?: ModelXtNamespace
  /** As xtNamespace. */
  readonly nftNamespace?: ModelNftNamespace
}

export interface ModelKernel {
  readonly ipvs: ModelIpvs
  readonly routes: ModelRoutes
  readonly links: ModelLinks
  readonly sysctl: ModelSysctl
  readonly conntrack: ModelConntrack
  readonly ipset: ModelIpset
  readonly nftChains: ModelNftChains
  readonly nftables: ModelNftables
  readonly xtNamespace: ModelXtNamespace
  /** One client for each family and table. */
  xtables(family: IpFamily, table: XtTableName): ModelXtables
  activeTables(family: IpFamily): Promise<readonly XtTableName[]>
  look(families: readonly IpFamily[]): ModelKernelLook
  /** The time source of watches. Tests set their own. */
  readonly time: ModelTime
  close(): Promise<void>
}

const defaultSysctls = {
  'net/ipv4/ip_forward': '0',
  'net/ipv4/vs/conntrack': '0',
  'net/ipv4/vs/conn_reuse_mode': '1',
  'net/ipv4/vs/expire_nodest_conn': '0',
  'net/ipv4/vs/expire_quiescent_template': '0',
  'net/ipv4/conf/all/arp_ignore': '0',
  'net/ipv4/conf/all/arp_announce': '0',
  'net/ipv4/conf/all/route_localnet': '0',
  'net/ipv6/conf/all/disable_ipv6': '0',
  'net/ipv6/conf/all/forwarding': '0',
} as const

function scheduleByTimer(delayMs: number, wake: () => void): () => void {
  const timer = setTimeout(wake, delayMs)
  return () => clearTimeout(timer)
}

/** A fresh network namespace with `lo` up, an empty IPVS table and empty x_tables. */
export function openModelKernel(options: ModelKernelOptions = {}): ModelKernel {
  const network = new ModelNetwork()
  const ipvs = new ModelIpvs()
  const routes = new ModelRoutes(network)
  const links = new ModelLinks(network, options.hasDummyModule ?? true)
  const conntrack = new ModelConntrack()
  const ipset = new ModelIpset()
  const nftNamespace = options.nftNamespace ?? new ModelNftNamespace()
  const nftChains = new ModelNftChains(nftNamespace)
  const nftables = new ModelNftables(nftNamespace)
  const xtNamespace = options.xtNamespace ?? new ModelXtNamespace()
  const xtables = new Map<ModelXtTable, ModelXtables>()
  const looks = new Map<string, ModelKernelLook>()
  const time: ModelTime = { schedule: scheduleByTimer }
  const sysctl = new ModelSysctl(options.sysctls ?? defaultSysctls)
  return {
    ipvs,
    routes,
    links,
    sysctl,
    conntrack,
    ipset,
    nftChains,
    nftables,
    xtNamespace,
    xtables: (family, table) => {
      const kernel = xtNamespace.table(family, table)
      const known = xtables.get(kernel)
      if (known !== undefined) return known
      const made = new ModelXtables(kernel)
      xtables.set(kernel, made)
      return made
    },
    activeTables: async (family) => xtNamespace.active(family),
    time,
    look: (families) => {
      const key = families.join()
      const look = looks.get(key) ?? new ModelKernelLook(families, { xtNamespace, ipvs, ipset, time })
      looks.set(key, look)
      return look
    },
    close: async () => {
      const netfilter = [conntrack, ipset, nftChains, nftables, ...xtables.values()]
      const parts = [ipvs, routes, links, ...netfilter, ...looks.values()]
      await Promise.all(parts.map((part) => part.close()))
    },
  }
}
