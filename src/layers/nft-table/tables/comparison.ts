// The comparison of the kernel with the acknowledged state while the agent runs: in slices of some milliseconds, between which changes go.
import type { Clock } from '../../../clock.js'
import type { NfSet, NfSetState, Nftables } from '../../../kernel/index.js'
import type { TableContent } from './content.js'
import { FrontendGroups } from './frontend-groups.js'
import { orAbsent } from './or-absent.js'
import type { PackedBytes } from './packed.js'
import type { Reading } from './reading.js'
import type { AskedObjects } from './set-reader.js'
import type { PartsToRead } from './stale-parts.js'
import type { TableReader } from './table-reader.js'

const defaultSliceCost = 5000
/** A slice also ends after so many milliseconds: the machine may be slow. */
const sliceMs = 10

/** The costs of a question, of an element that is asked by key, and of a frontend that enters the directory. */
const costs = { question: 50, key: 2.5, frontend: 0.3 } as const

/** Sets with more elements are compared by key. */
const mostDumped = 10_000
const keysAtOnce = 1000
/**
 * A set of up to so many elements is dumped once if it has more of them than are known. Only a dump finds those. In larger sets they stay
 * until the kernel refuses a change because of them, or until the next start.
 */
const mostSearched = 130_000

/** The cost of a dump: the kernel walks the set again for each message of 32 KB. */
function dumpCost(count: number): number {
  return costs.question + 0.5 * count + 0.000_015 * count * count
}

/** A comparison of one set by key, in parts. */
interface KeyedSet {
  readonly set: NfSet
  readonly asked: AskedObjects
  /** Number of objects that were asked. */
  done: number
}

export interface ComparisonOptions {
  readonly nftables: Nftables
  readonly clock: Pick<Clock, 'now'>
  readonly content: TableContent
  readonly reader: TableReader
  /** A slice ends with the question after which it has cost so much: estimates in microseconds, the same on each machine. Default: 5000. */
  readonly sliceCost?: number | undefined
}

/**
 * Compares parts of the table, or all. The structure comes first: sets and chains that are missing, then rules; then sets with another
 * number of elements than is known, then the others. What this agent writes meanwhile is known, and changes of other programs come as events
 * that add parts. A dump during which a transaction came is not made again: what it lacks or has too much is asked by key.
 */
export class Comparison {
  readonly #options: ComparisonOptions
  #isWhole = false
  #isGenerationDue = false
  #areObjectsDue = false
  readonly #chains = new Set<string>()
  readonly #sets = new Set<string>()
  /** Sets that an event named, and that one dump compares. They come before other sets. */
  readonly #urgentSets = new Set<string>()
  /** The last one goes on. */
  readonly #keyed: KeyedSet[] = []
  /** Sets that have more elements than are known. */
  readonly #crowded = new Set<string>()
  /** Large sets that an event named: they may have such elements where the kernel does not count. */
  readonly #named = new Set<string>()

  constructor(options: ComparisonOptions) {
    this.#options = options
  }

  /** Nothing is left to compare. */
  get isDone(): boolean {
    return (
      !this.#areObjectsDue &&
      this.#keyed.length + this.#urgentSets.size === 0 &&
      this.#chains.size + this.#sets.size + this.#crowded.size === 0
    )
  }

  /** The whole table is compared, or was when the comparison ended. */
  get isWhole(): boolean {
    return this.#isWhole
  }

  /** Adds parts to what is left. Those that events named come first: a comparison of everything may take long beside constant changes. */
  add({ isAll, hasObjects, sets, chains }: PartsToRead): void {
    if (this.isDone) this.clear()
    this.#isGenerationDue ||= isAll
    this.#isWhole ||= isAll
    const { structure, counts } = this.#options.content
    const isNew = [...sets].some((name) => !structure.hasSet({ set: name }))
    this.#areObjectsDue ||= isAll || hasObjects || isNew
    putFirst(this.#chains, chains)
    for (const name of sets) {
      const isSmall = counts.get(name) <= mostDumped
      if (isSmall) this.#sets.delete(name)
      else this.#named.add(name)
      ;(isSmall ? this.#urgentSets : this.#sets).add(name)
    }
  }

  /** Nothing is left, and nothing is known of the last comparison. */
  clear(): void {
    this.#isWhole = false
    this.#isGenerationDue = false
    this.#areObjectsDue = false
    this.#chains.clear()
    this.#sets.clear()
    this.#urgentSets.clear()
    this.#crowded.clear()
    this.#named.clear()
    this.#keyed.length = 0
    this.#options.content.groups = undefined
  }

  /** Compares the next parts, for some milliseconds. Throws KernelError. */
  async nextSlice(reading: Reading): Promise<void> {
    const { clock, content, sliceCost = defaultSliceCost } = this.#options
    const endMs = clock.now() + sliceMs
    content.compile()
    let cost = 0
    while (!this.isDone && cost < sliceCost && clock.now() < endMs) cost += await this.#step(reading)
    content.compile()
    this.#dropGroups()
  }

  /** Asks by key, at once, for objects of a set of whose elements the kernel has refused some. Throws KernelError. */
  async ask(set: NfSet, keys: readonly PackedBytes[], reading: Reading): Promise<void> {
    const { reader, content } = this.#options
    const byObject = new Map<PackedBytes, PackedBytes[]>()
    for (const key of keys) {
      const id = reader.sets.elements.idOf(set.set, key)
      byObject.set(id, [...(byObject.get(id) ?? []), key])
    }
    content.staleParts.markSet(set.set)
    const found = await reader.sets.readByKey(set, { ids: [...byObject.keys()], keys: byObject }, reading)
    if (found === 'gone') await this.readStructure(reading)
  }

  /** Reads which sets and chains the kernel has, and all rules. Throws KernelError. */
  async readStructure(reading: Reading): Promise<void> {
    await this.#readObjects(reading)
    this.#dropGroups()
    await this.#options.reader.readAllRules(reading)
  }

  /** Returns the cost. */
  async #step(reading: Reading): Promise<number> {
    if (this.#areObjectsDue) return await this.#compareObjects(reading)
    const chain = takeFirst(this.#chains)
    if (chain !== undefined) {
      await this.#options.reader.readRules(chain, reading)
      return 2 * costs.question
    }
    const groups = this.#openGroups()
    if (!groups.isWhole) {
      groups.takeIn(keysAtOnce)
      return keysAtOnce * costs.frontend
    }
    const urgent = takeFirst(this.#urgentSets)
    if (urgent !== undefined) return await this.#compareSet(urgent, groups, reading)
    const keyed = this.#keyed.at(-1)
    if (keyed !== undefined) return await this.#askNext(keyed, reading)
    const name = takeFirst(this.#sets)
    if (name !== undefined) return await this.#compareSet(name, groups, reading)
    return await this.#search(takeFirst(this.#crowded) ?? '', groups, reading)
  }

  async #compareObjects(reading: Reading): Promise<number> {
    const { nftables, content } = this.#options
    if (this.#isGenerationDue) content.staleParts.beginAll(await nftables.generation())
    const found = await this.#readObjects(reading)
    this.#areObjectsDue = false
    if (this.#isGenerationDue) {
      for (const name of this.#options.reader.chainNames()) this.#chains.add(name)
      for (const name of this.#inOrder(found)) this.#sets.add(name)
    }
    this.#isGenerationDue = false
    return 4 * costs.question + found.size
  }

  /** Reads which sets and chains the kernel has. What was in sets that are missing is known to be missing at once. */
  async #readObjects(reading: Reading): Promise<ReadonlyMap<string, NfSetState>> {
    const { content, reader } = this.#options
    const { found, missing, added } = await reader.readObjects(reading)
    for (const name of added) content.noteSet(name)
    content.compile()
    if (missing.length > 0) {
      const groups = this.#openGroups()
      groups.takeIn(Infinity)
      for (const name of missing) {
        const members = reader.sets.elements.membersOf(name, groups)
        reader.sets.take(name, undefined, reading, { keepsLeftovers: false, members })
        this.#sets.delete(name)
        this.#urgentSets.delete(name)
      }
    }
    // Another agent removes what no frontend needs any more: this one must not make it again.
    if (reading.missing.length > 0) content.recompile()
    return found
  }

  /** The names of all sets, those first whose number of elements is not the known one. Kernels before Linux 6.16 do not tell it. */
  #inOrder(found: ReadonlyMap<string, NfSetState>): readonly string[] {
    const { reader, content } = this.#options
    const differs = (name: string): boolean => {
      const count = found.get(name)?.attributes.count
      return count !== undefined && count !== content.counts.get(name)
    }
    const names = reader.namesOf(found)
    return [...names.filter(differs), ...names.filter((name) => !differs(name))]
  }

  #openGroups(): FrontendGroups {
    const { content } = this.#options
    return (content.groups ??= new FrontendGroups(content.frontends.values(), content.packer))
  }

  #dropGroups(): void {
    if (this.isDone) this.#options.content.groups = undefined
  }

  async #compareSet(name: string, groups: FrontendGroups, reading: Reading): Promise<number> {
    const { reader, content } = this.#options
    const set = reader.sets.setOf(name)
    if (set === undefined || !content.structure.hasSet(set)) return 0
    const members = reader.sets.elements.membersOf(name, groups)
    if (Math.max(members.length, content.counts.get(name)) > mostDumped) {
      this.#keyed.push({ set, asked: { ids: members }, done: 0 })
      return 0
    }
    // With many more elements than are known, it is asked by key first.
    const count = await this.#countOf(set, members.length)
    if (count > mostDumped) {
      this.#keyed.push({ set, asked: { ids: members }, done: 0 })
      return costs.question
    }
    return await this.#dump(set, members, reading)
  }

  async #dump(set: NfSet, members: readonly PackedBytes[], reading: Reading): Promise<number> {
    const dumped = await this.#options.reader.sets.readOnce(set, members, reading)
    if (dumped === 'gone') {
      this.#areObjectsDue = true
      return costs.question
    }
    if (dumped.suspects !== undefined) this.#keyed.push({ set, asked: dumped.suspects, done: 0 })
    return dumpCost(dumped.count)
  }

  async #askNext(keyed: KeyedSet, reading: Reading): Promise<number> {
    const { reader, content } = this.#options
    const { set, asked, done } = keyed
    const ids = asked.ids.slice(done, done + keysAtOnce)
    const part = asked.keys === undefined ? { ids } : { ids, keys: asked.keys }
    const count = await reader.sets.readByKey(set, part, reading)
    keyed.done += ids.length
    if (count === 'gone') this.#areObjectsDue = true
    const isLast = count === 'gone' || keyed.done >= asked.ids.length
    if (isLast) this.#keyed.pop()
    if (count === 'gone') return costs.question
    if (isLast && asked.keys === undefined) {
      const known = content.counts.get(set.set)
      const real = await this.#countOf(set, this.#named.delete(set.set) ? known + 1 : known)
      if (real > known && real <= mostSearched) this.#crowded.add(set.set)
    }
    return 2 * costs.question + costs.key * count
  }

  /** Nothing else is left: finds the elements that no key leads to. */
  async #search(name: string, groups: FrontendGroups, reading: Reading): Promise<number> {
    const { reader } = this.#options
    const set = reader.sets.setOf(name)
    if (set === undefined) return 0
    return await this.#dump(set, reader.sets.elements.membersOf(name, groups), reading)
  }

  /** The number of elements that the kernel has, or `otherwise` where it does not tell. */
  async #countOf(set: NfSet, otherwise: number): Promise<number> {
    const states = await orAbsent(async () => await this.#options.nftables.sets(set))
    return states?.[0]?.attributes.count ?? otherwise
  }
}

/** Puts the names before the others. */
function putFirst(names: Set<string>, first: ReadonlySet<string>): void {
  const others = [...names].filter((name) => !first.has(name))
  names.clear()
  for (const name of [...first, ...others]) names.add(name)
}

function takeFirst(names: Set<string>): string | undefined {
  const [name] = names
  if (name !== undefined) names.delete(name)
  return name
}
