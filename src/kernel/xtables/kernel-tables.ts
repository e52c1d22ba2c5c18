import { constants } from 'node:os'
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Addon } from '../addon.js'
import type { Ipset } from '../ipset/ipset.js'
import { DryRunXtables } from '../dry-run/dry-run-xtables.js'
import type { TakeTransaction } from '../dry-run/transaction.js'
import type { Nftables } from '../nftables/nftables.js'
import type { CallCounts } from '../request-queue.js'
import { listNftTables, readActiveTables } from './active-tables.js'
import { describeXtTable } from './describe.js'
import type { XtPlace } from './encode.js'
import { listNftTable, type XtListing } from './listing.js'
import { findNftBarrier } from './nft/barrier.js'
import { NftXtables } from './nft/nft-xtables.js'
import { RealXtables } from './real-xtables.js'
import {
  type XtBarrier,
  type XtFlavour,
  type XtHookPlace,
  xtHooks,
  type XtTableName,
  type Xtables,
} from './xtables.js'

const { ENOPROTOOPT } = constants.errno

export interface KernelTablesOptions {
  readonly addon: () => Addon
  readonly calls: CallCounts
  readonly nftables: Nftables
  readonly ipset: Ipset
  /** Takes the transactions of a dry run; undefined: the kernel gets them. */
  readonly take: TakeTransaction | undefined
  /** Whether the kernel of a dry run has no legacy tables of the family, and gets none. */
  readonly isAbsent: (family: IpFamily) => boolean
  /** Names of all sets, to decode rules. */
  readonly setNames: () => Promise<readonly string[]>
}

const tableNames: readonly XtTableName[] = ['nat', 'filter', 'mangle', 'raw']

/** The tables of x_tables, in both flavours: one object for each table. */
export class KernelTables {
  readonly #options: KernelTablesOptions
  readonly #legacy = new Map<string, RealXtables>()
  readonly #nft = new Map<string, NftXtables>()
  readonly #dry = new Map<string, DryRunXtables>()
  #isHurried = false

  constructor(options: KernelTablesOptions) {
    this.#options = options
  }

  open(family: IpFamily, table: XtTableName, flavour: XtFlavour = 'legacy'): Xtables {
    const { take } = this.#options
    const place = { family, table }
    if (take === undefined) return this.#open(place, flavour)
    const key = `${flavour} ${describeXtTable(family, table)}`
    const known = this.#dry.get(key)
    if (known !== undefined) return known
    const list = async (): Promise<XtListing> => await this.#listKernel(place, flavour)
    const packets: Xtables['packets'] = async (chains) => await this.#open(place, flavour).packets(chains)
    const made = new DryRunXtables({ place, flavour, list, packets, take })
    this.#dry.set(key, made)
    return made
  }

  /** `Kernel.activeTables`. A legacy table of a dry run exists as soon as the agent would have opened it. */
  async active(family: IpFamily, flavour: XtFlavour = 'legacy'): Promise<readonly XtTableName[]> {
    const { nftables, isAbsent } = this.#options
    if (flavour === 'nft') return await listNftTables(family, nftables)
    const present = await readActiveTables(family, '/proc/net')
    if (isAbsent(family)) return present
    return tableNames.filter(
      (table) => present.includes(table) || this.#dry.has(`legacy ${describeXtTable(family, table)}`),
    )
  }

  /** `Kernel.findBarrier`. */
  async findBarrier(place: XtHookPlace, flavour: XtFlavour): Promise<XtBarrier | undefined> {
    return flavour === 'nft'
      ? await findNftBarrier(this.#options.nftables, place)
      : await this.#openLegacy(place).barrier(place.hook)
  }

  /** `Kernel.listTable`. */
  async list(place: XtPlace, flavour: XtFlavour): Promise<XtListing> {
    const dry = this.#dry.get(`${flavour} ${describeXtTable(place.family, place.table)}`)
    return dry === undefined ? await this.#listKernel(place, flavour) : await dry.listing()
  }

  /** The kernel's table. In a dry run an absent legacy table is empty: a request for it would create it. */
  async #listKernel(place: XtPlace, flavour: XtFlavour): Promise<XtListing> {
    const { family, table } = place
    if (flavour === 'legacy' && this.#options.take !== undefined) {
      if (this.#options.isAbsent(family)) throw absentTable(family, table)
      const present = await readActiveTables(family, '/proc/net')
      if (!present.includes(table))
        return xtHooks[table].map((chain) => ({ chain, policy: 'ACCEPT', rules: [] }))
    }
    const setOf = await this.#setsOf(place.family)
    return flavour === 'nft'
      ? await listNftTable(this.#options.nftables, place, setOf)
      : await this.#openLegacy(place).list(setOf)
  }

  /** The rules of an existing legacy table, for readers that follow a packet. Throws KernelError. */
  async firewallRules({ family, table }: XtPlace): ReturnType<RealXtables['firewallRules']> {
    return await this.#openLegacy({ family, table }).firewallRules()
  }

  /** The rules of an existing legacy table that use the packet mark. Throws KernelError. */
  async markUses({ family, table }: XtPlace): ReturnType<RealXtables['markUses']> {
    return await this.#openLegacy({ family, table }).markUses()
  }

  /** From now on no call waits for the lock. */
  hurry(): void {
    this.#isHurried = true
    for (const table of this.#legacy.values()) table.hurry()
  }

  async close(): Promise<void> {
    await Promise.all([...this.#legacy.values(), ...this.#nft.values()].map((table) => table.close()))
  }

  #open(place: XtPlace, flavour: XtFlavour): Xtables {
    if (flavour === 'legacy') return this.#openLegacy(place)
    const { nftables, ipset } = this.#options
    const key = describeXtTable(place.family, place.table)
    const made = this.#nft.get(key) ?? new NftXtables(place, nftables, ipset)
    this.#nft.set(key, made)
    return made
  }

  #openLegacy({ family, table }: XtPlace): RealXtables {
    const { addon, calls } = this.#options
    const key = describeXtTable(family, table)
    const known = this.#legacy.get(key)
    if (known !== undefined) return known
    const made = new RealXtables(addon, { family, table }, calls)
    if (this.#isHurried) made.hurry()
    this.#legacy.set(key, made)
    return made
  }

  /** The names of sets by their numbers. Without ipset there are none. */
  async #setsOf(family: IpFamily): Promise<(index: number) => string | undefined> {
    const { ipset, setNames } = this.#options
    const names = new Map<number, string>()
    const found = await orRefusal(setNames)
    for (const name of found instanceof KernelError ? [] : found) {
      const number = await orRefusal(async () => await ipset.number(name, family))
      if (typeof number === 'number') names.set(number, name)
    }
    return (index) => names.get(index)
  }
}

/** The kernel's answer for a family without legacy tables. */
function absentTable(family: IpFamily, table: XtTableName): KernelError {
  const object = describeXtTable(family, table)
  return new KernelError({ errno: ENOPROTOOPT, subsystem: 'xtables', operation: 'read', family, object })
}
