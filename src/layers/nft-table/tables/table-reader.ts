// Reads the table of one family from the kernel into the acknowledged state.
import { constants } from 'node:os'
import { KernelError, isNotFound, orRefusal } from '../../../errors.js'
import type { NfRuleState, NfSetState, Nftables } from '../../../kernel/index.js'
import type { TableContent } from './content.js'
import { FrontendGroups } from './frontend-groups.js'
import { orAbsent } from './or-absent.js'
import type { ElementOptions } from './read-elements.js'
import { Reading } from './reading.js'
import { SetReader } from './set-reader.js'
import { rulesByChain } from './structure-state.js'

/** Readings for one comparison of all chains, while transactions come between. */
const mostComparisons = 5

/** Sets with more elements are read by key: their dump takes 0.15 s and more, and grows with the square of their number. */
const largestDump = 100_000

/** Keys of one question. */
const keysAtOnce = 10_000

export interface FoundSets {
  /** By name. */
  readonly found: ReadonlyMap<string, NfSetState>
  /** The names of those that the kernel had, and has no more. */
  readonly missing: readonly string[]
  /** The names of those that it did not have. */
  readonly added: readonly string[]
}

export class TableReader {
  readonly #nftables: Nftables
  readonly #content: TableContent
  readonly sets: SetReader

  constructor(nftables: Nftables, content: TableContent) {
    this.#nftables = nftables
    this.#content = content
    this.sets = new SetReader(nftables, content)
  }

  /**
   * Reads everything: at a start, or when it is unknown what the table has of a transaction of ours. Throws KernelError; EPERM when another
   * program's socket owns the table. Then everything is stale.
   */
  async readAll(options: ElementOptions): Promise<Reading> {
    const reading = new Reading()
    const { staleParts } = this.#content
    staleParts.take()
    this.#content.compile()
    try {
      await this.#readAll(reading, options)
    } catch (error) {
      staleParts.markUnknown()
      throw error
    }
    return reading
  }

  /**
   * The chains of the table that another program removed or changed, a sentence each. Reads all of them at once, and again if a
   * transaction came between, of which the acknowledged state may not know yet. Throws KernelError.
   */
  async chainDifferences(): Promise<readonly string[]> {
    const { own, table, structure, staleParts } = this.#content
    const nftables = this.#nftables
    for (let attempt = 1; ; attempt++) {
      const before = await nftables.generation()
      const found = await orAbsent(async () => ({
        chains: await nftables.chains(table),
        rules: await nftables.rules(table),
      }))
      const after = await nftables.generation()
      const compared = [structure, own].map((part) => part.compare(found?.chains ?? [], found?.rules ?? []))
      const differences = [
        ...compared.flatMap(({ missingChains }) => missingChains.map((chain) => `chain ${chain} is missing`)),
        ...compared.flatMap(({ changedChains }) =>
          changedChains.map((chain) => `chain ${chain} has other rules`),
        ),
      ]
      const isWhole = before === after && staleParts.knows(after)
      if (differences.length === 0 || isWhole || attempt === mostComparisons) return differences
    }
  }

  /**
   * Whether most rules of the chains that the kernel had are gone, and no others are in their place: what is left serves nothing. False
   * where the kernel refuses the question.
   */
  async isFlushed(): Promise<boolean> {
    const { table, structure } = this.#content
    const found = await orRefusal(async () => await this.#nftables.rules(table))
    if (found instanceof KernelError) return isNotFound(found)
    return structure.isFlushed(found)
  }

  async #readAll(reading: Reading, options: ElementOptions): Promise<void> {
    const { staleParts, structure } = this.#content
    staleParts.beginAll(await this.#nftables.generation())
    const { found } = await this.readObjects(reading)
    const groups = new FrontendGroups(this.#content.frontends.values(), this.#content.packer)
    groups.takeIn(Infinity)
    for (const name of this.namesOf(found)) {
      const members = this.sets.elements.membersOf(name, groups)
      await this.#readSet(name, found, reading, { ...options, members })
    }
    this.#content.compile()
    await this.readAllRules(reading)
    // A former run may have removed the rules for sets that are out of use, and not the sets yet.
    if (structure.isForeign) this.#content.recompile()
  }

  /** Reads the rules of all chains. Throws KernelError. */
  async readAllRules(reading: Reading): Promise<void> {
    const { table } = this.#content
    const rules = rulesByChain((await orAbsent(async () => await this.#nftables.rules(table))) ?? [])
    for (const name of this.chainNames()) this.#takeRules(name, rules.get(name) ?? [], reading)
  }

  /** The names of all chains to compare. */
  chainNames(): readonly string[] {
    const { structure, own } = this.#content
    return [...structure.chains.map(({ chain }) => chain.chain), ...own.chains()]
  }

  /** The names of all sets to compare: those of the structure, and those that the kernel has. */
  namesOf(found: ReadonlyMap<string, NfSetState>): readonly string[] {
    const { structure, heldSets, staticSets } = this.#content
    const names = new Set([
      ...structure.sets.map(({ set }) => set),
      ...found.keys(),
      ...heldSets.map(({ set }) => set.set),
      ...staticSets.map(({ set }) => set.set),
    ])
    return [...names]
  }

  /** A map of endpoints that is too large for a dump is read by key: the sets that were read before say which frontends it has. */
  async #readSet(
    name: string,
    found: ReadonlyMap<string, NfSetState>,
    reading: Reading,
    options: ElementOptions,
  ): Promise<void> {
    const count = Math.max(this.#content.frontends.size, found.get(name)?.attributes.count ?? 0)
    const ids = count > largestDump ? this.sets.elements.expectedIn(name) : []
    const set = this.sets.setOf(name)
    if (ids.length === 0 || set === undefined || !found.has(name))
      return await this.sets.readWhole(name, found, reading, options)
    for (let from = 0; from < ids.length; from += keysAtOnce) {
      const some = ids.slice(from, from + keysAtOnce)
      const keys = new Map(some.map((id) => [id, [id]]))
      await this.sets.readByKey(set, { ids: some, keys }, reading, options)
    }
  }

  /** Reads which sets, chains and counters the kernel has. Throws KernelError. */
  async readObjects(reading: Reading): Promise<FoundSets> {
    const { table, structure } = this.#content
    const state = (await this.#nftables.tables(table.family)).find((each) => each.table === table.table)
    if (state?.owner !== undefined) throw ownedBy(state.owner, table.table)
    // ENOENT: there is no such table, or it has gone since.
    const sets = (await orAbsent(async () => await this.#nftables.sets(table))) ?? []
    const chains = (await orAbsent(async () => await this.#nftables.chains(table))) ?? []
    const counters = (await this.#nftables.counters(table)).map(({ counter }) => counter)
    const added = sets.filter((set) => !structure.hasSet(set)).map(({ set }) => set)
    const shared = structure.readObjects({ table: state, sets, chains, counters })
    const own = structure.isUnusable
      ? this.#content.own.readObjects([], [])
      : this.#content.own.readObjects(sets, chains)
    for (const { missingSets, missingChains } of [shared, own]) {
      for (const name of missingSets) reading.note('set-missing', name)
      for (const name of missingChains) reading.note('chain-missing', name)
    }
    const found = new Map(structure.isUnusable ? [] : sets.map((set) => [set.set, set]))
    return { found, missing: shared.missingSets, added: added.filter((name) => found.has(name)) }
  }

  /** Reads the rules of a chain. Throws KernelError. */
  async readRules(name: string, reading: Reading): Promise<void> {
    const { own, structure, table } = this.#content
    if (!structure.isReadable(name) && !own.hasChain(name)) return
    this.#takeRules(name, await this.#nftables.rules({ ...table, chain: name }), reading)
  }

  #takeRules(name: string, rules: readonly NfRuleState[], reading: Reading): void {
    const { own, structure } = this.#content
    if (own.hasChain(name)) {
      const { isChanged, isForeign: isForeignRule } = own.readRules(name, rules)
      if (isChanged) reading.note('chain-changed', name)
      if (isChanged && isForeignRule) reading.foreign.set(name, { kind: 'rules', sample: '' })
      return
    }
    if (!structure.isReadable(name)) return
    const isForeign = structure.hasForeignRules(name, rules)
    const hasLost = structure.hasLostRules(name, rules)
    if (structure.readRules(name, rules)) return
    // Another agent removes the rules that lead to a chain a second before the chain.
    if (hasLost) this.#content.recompile()
    if (structure.isAsWanted(name)) return
    reading.note('chain-changed', name)
    if (isForeign) reading.foreign.set(name, { kind: 'rules', sample: '' })
  }
}

function ownedBy(port: number, table: string): KernelError {
  return new KernelError({
    errno: constants.errno.EPERM,
    subsystem: 'nftables',
    operation: 'change nf_tables table',
    object: table,
    extack: `the table has the flag owner: it belongs to another program, by its netlink socket with port ${port}`,
  })
}
