// Reads the table of one family from the kernel into the acknowledged state.
import type { IpFamily } from '../../../address.js'
import { logFamily } from '../../../engine/index.js'
import { KernelError, isNotFound, orRefusal } from '../../../errors.js'
import type { Log } from '../../../log.js'
import type { FamilyMetrics } from '../../../metrics/index.js'
import { shortened } from '../../shared/index.js'
import { DriftCounter } from '../../objects/index.js'
import type { ForeignContent } from '../other-agents.js'
import { isUsableSet, type NfRuleState, type NfSetState, type Nftables } from '../../../kernel/index.js'
import { constants } from 'node:os'
import { ElementReader, type ReadOptions } from './read-elements.js'
import type { TableContent } from './content.js'
import type { PartsToRead } from './stale-parts.js'
import { rulesByChain } from './structure-state.js'

export type NftDriftKind =
  'chain-missing' | 'chain-changed' | 'set-missing' | 'elements-changed' | 'element-unexpected'

/** The differences between a reading and the acknowledged state. */
export class Reading {
  readonly drift = new DriftCounter<NftDriftKind>()
  /** Names of sets and chains. */
  readonly missing: string[] = []
  readonly changed: string[] = []
  /** Content that this agent did not write, and does not want, by the names of the sets and chains: a sample of each. */
  readonly foreign = new Map<string, ForeignContent>()

  get isDifferent(): boolean {
    return this.drift.counts.size > 0
  }

  note(kind: NftDriftKind, name: string, count = 1): void {
    if (count === 0) return
    for (let left = count; left > 0; left--) this.drift.add(kind)
    const names = kind.endsWith('missing') ? this.missing : this.changed
    if (!names.includes(name)) names.push(name)
  }
}

/** Readings for one comparison of all chains, while transactions come between. */
const mostComparisons = 5

export class TableReader {
  readonly #nftables: Nftables
  readonly #content: TableContent
  readonly #elements: ElementReader

  constructor(nftables: Nftables, content: TableContent) {
    this.#nftables = nftables
    this.#content = content
    this.#elements = new ElementReader(content)
  }

  /**
   * Reads the stale parts. Throws KernelError; EPERM when another program's socket owns the table. Then everything is stale.
   */
  async read(options: ReadOptions): Promise<Reading> {
    const reading = new Reading()
    const { staleParts } = this.#content
    if (staleParts.isNone) return reading
    const parts = staleParts.take()
    this.#content.compile()
    this.#elements.forget()
    try {
      if (parts.isAll) await this.#readAll(reading, options)
      else await this.#readParts(parts, reading, options)
    } catch (error) {
      staleParts.markAllStale()
      throw error
    } finally {
      this.#elements.forget()
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

  async #readAll(reading: Reading, options: ReadOptions): Promise<void> {
    const { staleParts, structure, heldSets, staticSets } = this.#content
    staleParts.beginAll(await this.#nftables.generation())
    const found = await this.#readObjects(reading)
    const names = new Set([
      ...structure.sets.map(({ set }) => set),
      ...found.keys(),
      ...heldSets.map(({ set }) => set.set),
      ...staticSets.map(({ set }) => set.set),
    ])
    for (const name of names) await this.#readSet(name, found, reading, options)
    this.#content.compile()
    const { own, table } = this.#content
    const rules = rulesByChain((await orAbsent(async () => await this.#nftables.rules(table))) ?? [])
    for (const { chain } of structure.chains)
      this.#takeRules(chain.chain, rules.get(chain.chain) ?? [], reading)
    for (const name of own.chains()) this.#takeRules(name, rules.get(name) ?? [], reading)
    // A former run may have removed the rules for sets that are out of use, and not the sets yet.
    if (structure.isForeign) this.#content.recompile()
  }

  async #readParts(parts: PartsToRead, reading: Reading, options: ReadOptions): Promise<void> {
    const { structure } = this.#content
    const sets = new Set(parts.sets)
    const isIncomplete = parts.hasObjects || [...sets].some((name) => !structure.hasSet({ set: name }))
    const found = isIncomplete ? await this.#readObjects(reading) : undefined
    if (found !== undefined) for (const { set } of structure.sets) if (!found.has(set)) sets.add(set)
    for (const name of sets) await this.#readSet(name, found, reading, options)
    // Another agent removes what no frontend needs any more: this one must not make it again.
    if (reading.missing.length > 0) this.#content.recompile()
    else this.#content.compile()
    for (const name of parts.chains) await this.#readRules(name, reading)
  }

  /** The sets of the kernel, by name. */
  async #readObjects(reading: Reading): Promise<ReadonlyMap<string, NfSetState>> {
    const { table, structure } = this.#content
    const state = (await this.#nftables.tables(table.family)).find((each) => each.table === table.table)
    if (state?.owner !== undefined) throw ownedBy(state.owner, table.table)
    // ENOENT: there is no such table, or it has gone since.
    const sets = (await orAbsent(async () => await this.#nftables.sets(table))) ?? []
    const chains = (await orAbsent(async () => await this.#nftables.chains(table))) ?? []
    const counters = (await this.#nftables.counters(table)).map(({ counter }) => counter)
    const shared = structure.readObjects({ table: state, sets, chains, counters })
    const own = structure.isUnusable
      ? this.#content.own.readObjects([], [])
      : this.#content.own.readObjects(sets, chains)
    for (const { missingSets, missingChains } of [shared, own]) {
      for (const name of missingSets) reading.note('set-missing', name)
      for (const name of missingChains) reading.note('chain-missing', name)
    }
    return structure.isUnusable ? new Map() : new Map(sets.map((set) => [set.set, set]))
  }

  /** `found`: the kernel's sets; undefined: they are as acknowledged. */
  async #readSet(
    name: string,
    found: ReadonlyMap<string, NfSetState> | undefined,
    reading: Reading,
    options: ReadOptions,
  ): Promise<void> {
    const { strays, staticSets } = this.#content
    const fixed = staticSets.find(({ set }) => set.set === name)
    const set = fixed?.set ?? this.#elements.setOf(name)
    if (set === undefined) return
    const attributes = found?.get(name)?.attributes
    const isThere = found === undefined || (attributes !== undefined && isUsableSet(set, attributes))
    const elements = isThere ? await orAbsent(async () => await this.#nftables.elements(set)) : undefined
    if (elements !== undefined) this.#content.noteSet(name)
    if (fixed !== undefined) {
      const foreign = fixed.foreignIn(elements)
      if (fixed.read(elements)) return
      reading.note('elements-changed', name)
      if (foreign !== undefined) reading.foreign.set(name, { kind: 'elements', sample: foreign })
      return
    }
    const { changed, foreign, strays: keys } = this.#elements.read(name, elements, options)
    reading.note('elements-changed', name, changed)
    reading.note('element-unexpected', name, keys.length)
    if (foreign !== undefined) reading.foreign.set(name, { kind: 'elements', sample: foreign })
    if (keys.length > 0) strays.set(name, { set, keys })
    else strays.delete(name)
  }

  async #readRules(name: string, reading: Reading): Promise<void> {
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

interface DriftReportsOptions {
  readonly family: IpFamily
  /** The name of the table. */
  readonly table: string
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the content of other programs that a transaction repaired, by the names of the sets and chains. Absent: nothing gets it. */
  readonly onForeign?: (found: Reading['foreign']) => void
}

/** Differences that the next transaction repairs. Without a transaction, another agent wrote what this one wants as well. */
export class DriftReports {
  readonly #options: DriftReportsOptions
  #unreported: Reading[] = []

  constructor(options: DriftReportsOptions) {
    this.#options = options
  }

  add(reading: Reading): void {
    this.#unreported.push(reading)
  }

  /** `isRepaired`: the differences are no more, or still are, by a transaction of ours. */
  report({ isRepaired }: { readonly isRepaired: boolean }): void {
    const { family, table, log, metrics, onForeign } = this.#options
    for (const reading of this.#unreported.splice(0)) {
      if (!isRepaired) continue
      onForeign?.(reading.foreign)
      for (const [kind, count] of reading.drift.counts) metrics.drift(kind).inc(count)
      log.info('Kernel state differs and is repaired', {
        ipFamily: logFamily(family),
        table,
        missing: shortened(reading.missing),
        changed: shortened(reading.changed),
      })
    }
  }
}

/** undefined: ENOENT. */
async function orAbsent<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof KernelError && isNotFound(error)) return undefined
    throw error
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
