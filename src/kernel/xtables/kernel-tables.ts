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
import { PackedRulePackets } from './rule-packets.js'
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
    const list = async (): Promise<XtListing> => await this.list(place, flavour)
    const packets: Xtables['packets'] = async (chains) =>
      (await this.#isAbsent(place, flavour))
        ? PackedRulePackets.of(chains.map(() => []))
        : await this.#open(place, flavour).packets(chains)
    const made = new DryRunXtables({ place, flavour, list, packets, take })
    this.#dry.set(key, made)
    return made
  }

  /** `Kernel.activeTables`. */
  async active(family: IpFamily, flavour: XtFlavour = 'legacy'): Promise<readonly XtTableName[]> {
    return flavour === 'nft'
      ? await listNftTables(family, this.#options.nftables)
      : await readActiveTables(family, '/proc/net')
  }

  /** `Kernel.findBarrier`. */
  async findBarrier(place: XtHookPlace, flavour: XtFlavour): Promise<XtBarrier | undefined> {
    return flavour === 'nft'
      ? await findNftBarrier(this.#options.nftables, place)
      : await this.#openLegacy(place).barrier(place.hook)
  }

  /** `Kernel.listTable`. */
  async list(place: XtPlace, flavour: XtFlavour): Promise<XtListing> {
    if (await this.#isAbsent(place, flavour))
      return xtHooks[place.table].map((chain) => ({ chain, policy: 'ACCEPT', rules: [] }))
    const setOf = await this.#setsOf(place.family)
    return flavour === 'nft'
      ? await listNftTable(this.#options.nftables, place, setOf)
      : await this.#openLegacy(place).list(setOf)
  }

  /** All tables of both families and flavours, as the transactions of a dry run leave them. Throws KernelError. */
  async remaining(): Promise<readonly XtListing[]> {
    const found = await Promise.all([...this.#dry.values()].map(async (table) => await table.listing()))
    for (const family of ['ipv4', 'ipv6'] as const)
      for (const flavour of ['legacy', 'nft'] as const)
        for (const table of await this.active(family, flavour))
          if (!this.#dry.has(`${flavour} ${describeXtTable(family, table)}`))
            found.push(await this.list({ family, table }, flavour))
    return found
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

  /** Whether a dry run must not ask for the table, which would create it. Throws KernelError if the kernel has no legacy tables. */
  async #isAbsent({ family, table }: XtPlace, flavour: XtFlavour): Promise<boolean> {
    const { take, isAbsent } = this.#options
    if (flavour === 'nft' || take === undefined) return false
    if (isAbsent(family)) throw absentTable(family, table)
    return !(await readActiveTables(family, '/proc/net')).includes(table)
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

  /** Without ipset there are none. */
  async #setsOf(family: IpFamily): Promise<(index: number) => string | undefined> {
    const { ipset, setNames } = this.#options
    const found = await orRefusal(setNames)
    return await setsByNumber(ipset, found instanceof KernelError ? [] : found, family)
  }
}

/** The names of sets by their numbers. A set of the other family has none. */
export async function setsByNumber(
  ipset: Pick<Ipset, 'number'>,
  names: readonly string[],
  family: IpFamily,
): Promise<(index: number) => string | undefined> {
  const found = new Map<number, string>()
  for (const name of names) {
    const number = await orRefusal(async () => await ipset.number(name, family))
    if (typeof number === 'number') found.set(number, name)
  }
  return (index) => found.get(index)
}

/** The kernel's answer for a family without legacy tables. */
function absentTable(family: IpFamily, table: XtTableName): KernelError {
  const object = describeXtTable(family, table)
  return new KernelError({ errno: ENOPROTOOPT, subsystem: 'xtables', operation: 'read', family, object })
}
