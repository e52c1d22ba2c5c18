// Takes the elements of the kernel's sets into the acknowledged states.
import { NfElements, type NfSet } from '../../../kernel/index.js'
import { type NftSchema, numberedSet } from '../compile/schema.js'
import { FrontendEntry, HeldEntry } from './entries.js'
import { flagSets, setsOf } from './frontend-elements.js'
import {
  absent,
  type ChainPart,
  type FrontendState,
  holeOf,
  isForeign,
  isSameState,
  joinSources,
  type NumberPart,
  numberParts,
  splitSources,
  withEndpoint,
} from './frontend-state.js'
import type { HeldSet, TableContent } from './content.js'
import { type FrontendId, packBytes, type PackedBytes } from './packed.js'

export interface ReadOptions {
  /** Objects that no route wants stay for now. */
  readonly keepsLeftovers: boolean
  /** The kernel was not read before. */
  readonly isFirst: boolean
}

/** Differences of a set's elements from the acknowledged ones: numbers of objects. */
export interface ElementDrift {
  readonly changed: number
  /** Elements that this agent neither wrote nor wants: the same sample for the same ones. undefined: there are none. */
  readonly foreign: string | undefined
  /** Keys of elements that belong to no state of ours, and are to be deleted. */
  readonly strays: readonly PackedBytes[]
}

const unchanged: ElementDrift = { changed: 0, foreign: undefined, strays: [] }

/** One of many values: the same one in any order. */
class Sample {
  smallest: string | undefined

  note(value: string | undefined): void {
    if (value === undefined) return
    if (this.smallest === undefined || value < this.smallest) this.smallest = value
  }
}

/** How the elements of one set become a part of the states of frontends. */
interface FrontendReader {
  readonly set: NfSet
  readonly isNodePort: boolean
  /** The parts by frontend, and strays. */
  readonly read: (elements: NfElements) => ReadParts
}

interface ReadParts {
  /** The states with the part that was read; the state is the acknowledged one. */
  readonly update: (state: FrontendState, id: FrontendId) => FrontendState
  /** The frontends in the set. */
  readonly ids: Iterable<FrontendId>
  /** Those that were in the set before, and perhaps others. */
  readonly concerned: (known: KnownFrontends) => Iterable<FrontendEntry>
  readonly strays?: readonly PackedBytes[]
  /** A sample of what the state has from the set, if neither the desired nor the acknowledged state has it. Default: compares all parts. */
  readonly foreignIn?: (state: FrontendState, entry: FrontendEntry) => string | undefined
}

/**
 * The frontends of one kind by what the kernel had before a reading: those that a set concerns beside those in it. A table has
 * thousands of sets, so that a walk of all frontends for each would be quadratic.
 */
class KnownFrontends {
  readonly all: FrontendEntry[] = []
  readonly withSources: FrontendEntry[] = []
  readonly #byNumber = new Map<NumberPart, Map<number, FrontendEntry[]>>()
  /** By the length of the list in bytes. */
  readonly #byLength = new Map<ListPart, Map<number, FrontendEntry[]>>()

  add(entry: FrontendEntry): void {
    const { acknowledged } = entry
    this.all.push(entry)
    if (acknowledged === absent) return
    if (acknowledged.sources !== '') this.withSources.push(entry)
    for (const part of numberParts) addTo(this.#byNumber, part, acknowledged[part], entry)
    for (const part of listParts) addTo(this.#byLength, part, acknowledged[part].length, entry)
  }

  /** In the set of this number. */
  withNumber(part: NumberPart, number: number): readonly FrontendEntry[] {
    return this.#byNumber.get(part)?.get(number) ?? []
  }

  /** With a list that is longer than so many bytes. */
  *withLonger(part: ListPart, bytes: number): Iterable<FrontendEntry> {
    for (const [length, entries] of this.#byLength.get(part) ?? []) if (length > bytes) yield* entries
  }
}

type ListPart = 'endpoints' | 'shortCircuit'
const listParts: readonly ListPart[] = ['endpoints', 'shortCircuit']

function addTo<T>(
  index: Map<T, Map<number, FrontendEntry[]>>,
  part: T,
  number: number,
  entry: FrontendEntry,
): void {
  if (number === 0) return
  const entries = index.get(part) ?? new Map<number, FrontendEntry[]>()
  index.set(part, entries)
  const some = entries.get(number)
  if (some === undefined) entries.set(number, [entry])
  else some.push(entry)
}

/** Reads sets into the content of one family's table. */
export class ElementReader {
  readonly #content: TableContent
  readonly #schema: NftSchema
  readonly #fixed = new Map<string, FrontendReader>()
  readonly #held = new Map<string, HeldSet>()
  /** The reading in progress uses these; undefined: it has not needed them yet. */
  #known: { readonly services: KnownFrontends; readonly nodePorts: KnownFrontends } | undefined

  constructor(content: TableContent) {
    this.#content = content
    this.#schema = content.schema
    for (const held of content.heldSets) this.#held.set(held.set.set, held)
    for (const isNodePort of [false, true])
      for (const reader of this.#fixedReaders(isNodePort)) this.#fixed.set(reader.set.set, reader)
  }

  /** A reading begins or ends: acknowledged states change by `read` alone meanwhile. */
  forget(): void {
    this.#known = undefined
  }

  /** The set of the schema with this name whose elements are states; undefined: there is none. */
  setOf(name: string): NfSet | undefined {
    return this.#held.get(name)?.set ?? this.#readerOf(name)?.set
  }

  /**
   * Replaces what the set says in all acknowledged states; undefined: the kernel has no such set. Objects that differ are dirty.
   */
  read(
    name: string,
    elements: NfElements | undefined,
    { keepsLeftovers, isFirst }: ReadOptions,
  ): ElementDrift {
    const held = this.#held.get(name)
    if (held !== undefined) return readHeld(held, elements, keepsLeftovers)
    const reader = this.#readerOf(name)
    if (reader === undefined) return unchanged
    const { read, set, isNodePort } = reader
    const isEmpty = elements === undefined || elements.length === 0
    // As at a start on a node without the table.
    if (isEmpty && this.#content.frontends.acknowledgedCount === 0) return unchanged
    return this.#update(read(elements ?? new NfElements(set)), isNodePort, { keepsLeftovers, isFirst })
  }

  #update(
    { update, ids, concerned, strays = [], foreignIn = this.#foreignIn }: ReadParts,
    isNodePort: boolean,
    { keepsLeftovers, isFirst }: ReadOptions,
  ): ElementDrift {
    const { frontends } = this.#content
    const known = this.#knownFrontends(isNodePort)
    let changed = 0
    const foreign = new Sample()
    const found = Array.from(ids, (id) => frontends.get(id) ?? this.#enter(known, id))
    for (const entry of joined(found, concerned(known))) {
      // A state without elements and holder is forgotten, and another entry may stand for its frontend since.
      if (frontends.get(entry.id) !== entry) continue
      const state = update(entry.acknowledged, entry.id)
      if (state === entry.acknowledged || isSameState(state, entry.acknowledged)) continue
      changed++
      // The first reading finds what a former owner left: nothing is acknowledged.
      if (!isFirst) foreign.note(foreignIn(state, entry))
      entry.acknowledged = isSameState(state, absent) ? absent : state
      if (keepsLeftovers && entry.wanted === undefined) entry.keepLeftover()
      frontends.markDirty(entry)
      frontends.settle(entry)
    }
    return { changed, foreign: foreign.smallest, strays }
  }

  readonly #foreignIn = (state: FrontendState, { id, desired, acknowledged }: FrontendEntry) =>
    isForeign(state, [desired, acknowledged], this.#content.packer)
      ? `${id}${Object.values(state).join()}`
      : undefined

  #knownFrontends(isNodePort: boolean): KnownFrontends {
    if (this.#known === undefined) {
      this.#known = { services: new KnownFrontends(), nodePorts: new KnownFrontends() }
      for (const entry of this.#content.frontends.values())
        (entry.isNodePort ? this.#known.nodePorts : this.#known.services).add(entry)
    }
    return isNodePort ? this.#known.nodePorts : this.#known.services
  }

  #enter(known: KnownFrontends, id: FrontendId): FrontendEntry {
    const entry = this.#content.frontends.add(new FrontendEntry(id))
    known.add(entry)
    return entry
  }

  #fixedReaders(isNodePort: boolean): readonly FrontendReader[] {
    const { endpoints, shortCircuit } = setsOf(this.#schema, isNodePort)
    const chains = (set: NfSet, part: ChainPart): FrontendReader => ({
      set,
      isNodePort,
      read: readChains(part),
    })
    return [
      ...this.#flagReaders(isNodePort),
      chains(endpoints.ownChains, 'chain'),
      chains(shortCircuit.ownChains, 'shortCircuitChain'),
    ]
  }

  #flagReaders(isNodePort: boolean): readonly FrontendReader[] {
    return flagSets(this.#schema, isNodePort).map(({ set, flag }) => ({
      set,
      isNodePort,
      read: readMembers((state, isMember) => {
        const flags = isMember ? state.flags | flag : state.flags & ~flag
        return flags === state.flags ? state : { ...state, flags }
      }),
    }))
  }

  #readerOf(name: string): FrontendReader | undefined {
    const fixed = this.#fixed.get(name)
    if (fixed !== undefined) return fixed
    const numbered = numberedSet(this.#schema, name)
    if (numbered === undefined) return undefined
    const { kind, number, isNodePort, isShortCircuit, set } = numbered
    const read = (elements: NfElements): ReadParts => {
      switch (kind) {
        case 'sources':
          return this.#readSources(elements, number)
        case 'endpointAt':
          return this.#readEndpoints(elements, isShortCircuit ? 'shortCircuit' : 'endpoints', number)
        case 'withCount':
          return this.#readNumber(elements, isShortCircuit ? 'shortCircuitCount' : 'count', number)
        case 'inBucket':
          return this.#readNumber(elements, isShortCircuit ? 'shortCircuitBucket' : 'bucket', number)
      }
    }
    return { set, isNodePort, read }
  }

  /** A frontend that is in the sets of two numbers stays in the one that was read first: it is a stray in the other. */
  #readNumber(elements: NfElements, part: NumberPart, number: number): ReadParts {
    const members = keysOf(elements)
    const { frontends } = this.#content
    const strays = [...members].filter((id) => {
      const known = frontends.get(id)?.acknowledged[part] ?? 0
      return known !== 0 && known !== number
    })
    for (const id of strays) members.delete(id)
    return {
      ids: members,
      concerned: (known) => known.withNumber(part, number),
      strays,
      update: (state, id) => {
        if (members.has(id)) return state[part] === number ? state : { ...state, [part]: number }
        return state[part] === number ? { ...state, [part]: 0 } : state
      },
    }
  }

  /** The endpoints with one index. An element that says what a hole says is a stray: we never write it. */
  #readEndpoints(elements: NfElements, list: 'endpoints' | 'shortCircuit', index: number): ReadParts {
    const { endpointBytes } = this.#content.packer
    const hole = holeOf(endpointBytes)
    const found = new Map<FrontendId, PackedBytes>()
    const strays: FrontendId[] = []
    for (let element = 0; element < elements.length; element++) {
      const id = packBytes(elements.key(element))
      const endpoint = packBytes(elements.data(element))
      if (endpoint === hole) strays.push(id)
      else found.set(id, endpoint)
    }
    return {
      ids: found.keys(),
      concerned: (known) => known.withLonger(list, index * endpointBytes),
      strays,
      update: (state, id) => {
        const endpoints = withEndpoint(state[list], index, found.get(id), endpointBytes)
        return endpoints === state[list] ? state : { ...state, [list]: endpoints }
      },
      // A list is read part by part: a comparison of the whole list for each of them would be quadratic.
      foreignIn: (_, { id, desired }) => {
        const endpoint = found.get(id)
        const isKnown = endpoint === undefined || desired[list].startsWith(endpoint, index * endpointBytes)
        return isKnown ? undefined : `${id}${list}${index}${endpoint}`
      },
    }
  }

  #readSources(elements: NfElements, prefixLength: number): ReadParts {
    const { addressBytes } = this.#content.packer
    const networks = new Map<FrontendId, PackedBytes[]>()
    for (const key of keysOf(elements)) {
      const id = key.slice(0, -addressBytes)
      const network = String.fromCharCode(prefixLength) + key.slice(-addressBytes)
      const known = networks.get(id)
      if (known === undefined) networks.set(id, [network])
      else known.push(network)
    }
    return {
      ids: networks.keys(),
      concerned: (known) => known.withSources,
      update: (state, id) => {
        const read = networks.get(id)
        if (read === undefined && state.sources === '') return state
        const others = splitSources(state.sources, addressBytes).filter(
          (network) => network.charCodeAt(0) !== prefixLength,
        )
        const sources = joinSources([...others, ...(read ?? [])])
        return sources === state.sources ? state : { ...state, sources }
      },
    }
  }
}

function* joined<T>(first: Iterable<T>, second: Iterable<T>): Iterable<T> {
  yield* first
  yield* second
}

/** A verdict that we never write is its text: it equals no chain of ours. */
function readChains(part: ChainPart): (elements: NfElements) => ReadParts {
  return (elements) => {
    const chains = new Map<FrontendId, string>()
    for (let index = 0; index < elements.length; index++) {
      const { code, chain = '' } = elements.verdict(index)
      chains.set(packBytes(elements.key(index)), code === 'goto' ? chain : `${code} ${chain}`)
    }
    return {
      ids: chains.keys(),
      concerned: (known) => known.all,
      update: (state, id) => {
        const chain = chains.get(id) ?? ''
        return chain === state[part] ? state : { ...state, [part]: chain }
      },
    }
  }
}

function readMembers(
  withMember: (state: FrontendState, isMember: boolean) => FrontendState,
): (elements: NfElements) => ReadParts {
  return (elements) => {
    const members = keysOf(elements)
    return {
      ids: members,
      concerned: (known) => known.all,
      update: (state, id) => withMember(state, members.has(id)),
    }
  }
}

function readHeld(
  { entries }: HeldSet,
  elements: NfElements | undefined,
  keepsLeftovers: boolean,
): ElementDrift {
  const found = elements === undefined ? new Set<PackedBytes>() : keysOf(elements)
  for (const id of found) if (entries.get(id) === undefined) entries.add(new HeldEntry(id))
  let changed = 0
  const foreign = new Sample()
  for (const entry of entries.values()) {
    const isFound = found.has(entry.id)
    if (entry.acknowledged === isFound) continue
    changed++
    if (isFound && !entry.desired) foreign.note(entry.id)
    entry.acknowledged = isFound
    if (keepsLeftovers && isFound && entry.holders === 0) entry.keepLeftover()
    entries.markDirty(entry)
    entries.settle(entry)
  }
  return { changed, foreign: foreign.smallest, strays: [] }
}

function keysOf(elements: NfElements): Set<PackedBytes> {
  const keys = new Set<PackedBytes>()
  for (let index = 0; index < elements.length; index++) keys.add(packBytes(elements.key(index)))
  return keys
}
