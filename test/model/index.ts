// The kernel in memory: one network namespace with the interfaces of src/kernel and the kernel's results and errnos.
// test/contract runs the same suites on this model and on the real kernel.
import type { IpFamily } from '../../src/address.js'
import { listNftTables } from '../../src/kernel/xtables/active-tables.js'
import { setsByNumber } from '../../src/kernel/xtables/kernel-tables.js'
import { listNftTable, type XtListing } from '../../src/kernel/xtables/listing.js'
import type { XtPlace } from '../../src/kernel/xtables/encode.js'
import { NftXtables } from '../../src/kernel/xtables/nft/nft-xtables.js'
import type { PortPlace } from '../../src/kernel/ports/ports.js'
import {
  findForwardBarriers,
  findNftBarrier,
  type NfHookBarrier,
} from '../../src/kernel/xtables/nft/barrier.js'
import type {
  XtBarrier,
  XtFlavour,
  XtHookPlace,
  Xtables,
  XtTableName,
} from '../../src/kernel/xtables/xtables.js'
import { ModelConntrack, type ModelFlow } from './conntrack.js'
import { ModelIpset } from './ipset.js'
import { ModelIpvs } from './ipvs.js'
import { ModelKernelLook, type ModelTime } from './kernel-look.js'
import { ModelLinks } from './links.js'
import { ModelNetwork } from './network.js'
import { ModelNftChains } from './nft-chains.js'
import { ModelNftNamespace } from './nft-objects.js'
import { ModelNftables } from './nftables.js'
import { ModelPorts, type ModelProgram } from './ports.js'
import { ModelRelay } from './relay.js'
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
  ModelPorts,
  ModelProgram,
  ModelRelay,
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
  /** Held ports that an earlier agent stored. Default: none. */
  readonly storedPorts?: readonly PortPlace[]
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
  readonly network: ModelNetwork
  readonly ports: ModelPorts
  readonly relay: ModelRelay
  readonly xtNamespace: ModelXtNamespace
  /** One client for each family and table. Flavour nft: the agent's own class, on the model of nf_tables. */
  xtables(family: IpFamily, table: XtTableName, flavour: XtFlavour): Xtables
  xtables(family: IpFamily, table: XtTableName, flavour?: 'legacy'): ModelXtables
  activeTables(family: IpFamily, flavour?: XtFlavour): Promise<readonly XtTableName[]>
  findBarrier(place: XtHookPlace, flavour: XtFlavour): Promise<XtBarrier | undefined>
  listTable(place: XtPlace, flavour: XtFlavour): Promise<XtListing>
  forwardBarriers(): Promise<readonly NfHookBarrier[]>
  /** Empty: no rules of other programs. */
  firewall(): Promise<readonly []>
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
  const ports = new ModelPorts(network, options.storedPorts)
  const relay = new ModelRelay(network)
  const xtNamespace = options.xtNamespace ?? new ModelXtNamespace()
  const xtables = new Map<ModelXtTable, ModelXtables>()
  const nftXtables = new Map<string, NftXtables>()
  function table(family: IpFamily, name: XtTableName, flavour: XtFlavour): Xtables
  function table(family: IpFamily, name: XtTableName, flavour?: 'legacy'): ModelXtables
  function table(family: IpFamily, name: XtTableName, flavour: XtFlavour = 'legacy'): Xtables {
    if (flavour === 'nft') {
      const key = `${family} ${name}`
      const made = nftXtables.get(key) ?? new NftXtables({ family, table: name }, nftables, ipset)
      nftXtables.set(key, made)
      return made
    }
    const kernel = xtNamespace.table(family, name)
    const made = xtables.get(kernel) ?? new ModelXtables(kernel)
    xtables.set(kernel, made)
    return made
  }
  const looks = new Map<string, ModelKernelLook>()
  const time: ModelTime = { schedule: scheduleByTimer }
  const sysctl = new ModelSysctl(options.sysctls ?? defaultSysctls)
  return {
    ipvs,
    network,
    routes,
    links,
    sysctl,
    conntrack,
    ipset,
    nftChains,
    nftables,
    ports,
    relay,
    xtNamespace,
    xtables: table,
    activeTables: async (family, flavour = 'legacy') =>
      flavour === 'nft' ? await listNftTables(family, nftables) : xtNamespace.active(family),
    findBarrier: async (place, flavour) =>
      flavour === 'nft'
        ? await findNftBarrier(nftables, place)
        : await table(place.family, place.table).barrier(place.hook),
    listTable: async (place, flavour) =>
      flavour === 'nft'
        ? await listNftTable(
            nftables,
            place,
            await setsByNumber(
              ipset,
              (await ipset.sets()).map(({ name }) => name),
              place.family,
            ),
          )
        : xtNamespace.table(place.family, place.table).listing(),
    forwardBarriers: async () => await findForwardBarriers(nftables),
    firewall: async () => await Promise.resolve([]),
    time,
    look: (families) => {
      const key = families.join()
      const look = looks.get(key) ?? new ModelKernelLook(families, { xtNamespace, ipvs, ipset, time })
      looks.set(key, look)
      return look
    },
    close: async () => {
      const tables = [...xtables.values(), ...nftXtables.values()]
      const netfilter = [conntrack, ipset, nftChains, nftables, ...tables]
      const parts = [ipvs, routes, links, ports, relay, ...netfilter, ...looks.values()]
      await Promise.all(parts.map((part) => part.close()))
    },
  }
}
