import { hasAddress, type IpAddress } from '../../address.js'
import type { Pass } from '../../engine/index.js'
import type { VirtualServerKey } from '../../kernel/index.js'
import { IpvsChains } from './chains.js'
import { forbiddingSets, type SetKey, sourceKeepingSets } from './compile/sets.js'
import type { IpvsChainSettings } from './compile/chains.js'
import type { IpvsContext } from './context.js'
import { IpvsMarks } from './marks.js'
import { IpvsSets } from './sets.js'
import type { Entry } from './tables/entry.js'
import { IpsetTable } from './tables/ipset-table.js'

export interface SetsAndChainsSettings {
  readonly chains: IpvsChainSettings
  /** The machine's own addresses, loopback and link-local ones included. */
  readonly machine: readonly IpAddress[]
  /** Those that serve node ports. */
  readonly nodePortAddresses: readonly IpAddress[]
}

/**
 * The parts of ipvs mode except virtual servers: sets, the fixed chains that match them, and marks. They give traffic policies the meaning
 * that they have in iptables mode.
 */
export class SetsAndChains {
  readonly #table: IpsetTable
  readonly #sets: IpvsSets
  readonly #chains: IpvsChains
  readonly marks: IpvsMarks
  #machine: readonly IpAddress[] = []

  constructor(context: IpvsContext) {
    this.#table = new IpsetTable(context.family, context.config.ipvs.markMask)
    this.#sets = new IpvsSets(context, this.#table)
    this.#chains = new IpvsChains(context)
    this.marks = new IpvsMarks(context, this.#table)
  }

  configure({ chains, machine, nodePortAddresses }: SetsAndChainsSettings): void {
    this.#machine = machine
    this.#chains.set(chains)
    this.#table.want(
      this,
      nodePortAddresses.map((address) => ({ set: 'nodePortIPs', entry: { address } })),
    )
  }

  /** Compares sets and chains of the kernel with the desired ones. False: the sets could not be read. */
  async read(options: { readonly keepLeftovers: boolean }): Promise<boolean> {
    await this.#chains.look('full')
    return await this.#sets.read(options)
  }

  /** False: the sets were not read yet, and no route can have a mark. */
  get isAdopted(): boolean {
    return this.#table.isAdopted
  }

  /** Rules or sets are to be written, even if no other work is due. */
  get isWriteDue(): boolean {
    return this.#chains.isWriteDue || this.#sets.isRetryDue
  }

  /** Table mangle marks the connections to VIPs that are to be masqueraded: they need no chain of table nat. */
  get isMarking(): boolean {
    return this.#chains.isWritten
  }

  /** Whether a set proves that a virtual server is ours. */
  marksOurs(server: VirtualServerKey): boolean {
    return this.#table.marksOurs(server, (address) => hasAddress(this.#machine, address))
  }

  /** Whether a set names the address as a VIP. */
  marksVip(address: IpAddress): boolean {
    return this.#table.marksVip(address)
  }

  /**
   * Whether a virtual server of the kernel may be changed before anything else: its Service has endpoints that serve, and clients
   * reach them by the present sets and rules. If these keep the source of packets from outside, an endpoint on another node would
   * answer directly to the client, past this node.
   */
  isServable(entry: Entry): boolean {
    const { wanted } = entry
    if (wanted === undefined || wanted === entry.acknowledged || !entry.isServing) return false
    const isIn = (sets: ReadonlySet<SetKey>): boolean => wanted.entries.some(({ set }) => sets.has(set))
    return !isIn(forbiddingSets) && (isIn(sourceKeepingSets) || !this.#table.keepsSource(entry.key))
  }

  /** Runs before these virtual servers by mark are made: their set entries prove that they are ours. False: something is missing. */
  async admitMarks(entries: readonly Entry[], pass: Pass): Promise<boolean> {
    this.#want(entries)
    return await this.#sets.add(pass)
  }

  /**
   * Writes sets, their entries and chains. Runs before virtual servers are made, and before those are changed that are not
   * `isServable`. A Service that loses its last endpoint is refused before IPVS stops serving it. The refusal of a Service that got
   * its first endpoint ends before the chains are written. False: something is missing.
   */
  async admit(entries: readonly Entry[], pass: Pass): Promise<boolean> {
    this.#want(entries)
    const isComplete = (await this.#sets.add(pass)) && (await this.#sets.permit(pass))
    this.#chains.leaveOut(this.#sets.gaps)
    return (await this.#chains.write(pass, { isComplete: false })) && isComplete
  }

  /**
   * Removes unwanted set entries, after IPVS has everything: if the process dies before, a set entry still proves that a remaining
   * virtual server is ours. `isComplete`: all objects are in force. False: something is not written.
   */
  async settle(
    entries: readonly Entry[],
    { pass, isComplete }: { readonly pass: Pass; readonly isComplete: boolean },
  ): Promise<boolean> {
    for (const entry of entries) {
      const { acknowledged, isStale, wanted } = entry
      if (wanted === undefined && acknowledged === undefined && !isStale) this.#table.want(entry, [])
    }
    const isDiscarded = await this.#sets.discard(pass)
    if (isDiscarded) this.marks.settle()
    if (!isComplete) return isDiscarded
    const isWritten = await this.#chains.write(pass, { isComplete: true })
    if (isWritten) await this.#sets.destroyFormer()
    return isDiscarded && isWritten
  }

  dropLeftovers(): void {
    this.#table.dropLeftovers()
  }

  /** Milliseconds until the kernel is asked again for something that it refused; undefined: it refuses nothing. */
  nextInMs(): number | undefined {
    const times = [this.#sets.nextInMs(), this.#sets.readInMs(), this.#chains.nextInMs()]
    const next = Math.min(...times.map((ms) => ms ?? Infinity))
    return next === Infinity ? undefined : next
  }

  /** Reads the sets again, if the kernel refused the last reading and the next one is due. True: they are read. */
  async readSetsAgain(options: { readonly keepLeftovers: boolean }): Promise<boolean> {
    return this.#sets.readInMs() === 0 && (await this.#sets.read(options))
  }

  /** Whether a table differs from our last write; it is due to be written then. `cheap` misses some changes (`Xtables.check`). */
  async findsOtherRules(look: 'cheap' | 'full'): Promise<boolean> {
    return await this.#chains.look(look)
  }

  /**
   * Whether sets, or their numbers of entries, differ from the acknowledged ones; false before the first reading; undefined: the
   * kernel did not answer.
   */
  async findsOtherSets(): Promise<boolean | undefined> {
    return this.#table.isAdopted && (await this.#sets.findsDrift())
  }

  #want(entries: readonly Entry[]): void {
    for (const entry of entries) if (entry.wanted !== undefined) this.#table.want(entry, entry.wanted.entries)
  }
}
