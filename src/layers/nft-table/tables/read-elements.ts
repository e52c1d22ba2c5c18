// Takes the elements of the kernel's sets into the acknowledged states.
import { NfElements, type NfSet } from '../../../kernel/index.js'
import { type NftSchema, type NumberedSet, numberedSet } from '../compile/schema.js'
import { FrontendEntry, HeldEntry } from './entries.js'
import type { ElementCounts } from './element-counts.js'
import { flagSets, setsOf } from './frontend-elements.js'
import type { FrontendGroups } from './frontend-groups.js'
import {
  absent,
  type ChainPart,
  type FrontendState,
  holeOf,
  isForeign,
  isSameState,
  joinSources,
  type NumberPart,
  splitSources,
  withEndpoint,
} from './frontend-state.js'
import type { HeldSet, TableContent } from './content.js'
import { type FrontendId, packBytes, type PackedBytes } from './packed.js'

/** Differences of a set's elements from the acknowledged ones: numbers of objects. */
export interface ElementDrift {
  readonly changed: number
  /** Elements that this agent neither wrote nor wants: the same sample for the same ones. undefined: there are none. */
  readonly foreign: string | undefined
  /** Keys of elements that belong to no state of ours, and are to be deleted. */
  readonly strays: readonly PackedBytes[]
}

const unchanged: ElementDrift = { changed: 0, foreign: undefined, strays: [] }

const nothing: ReadParts = { update: (state) => state, ids: [] }

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
  /** The keys of the elements that such a frontend has in the set. */
  readonly keysIn: (state: FrontendState, id: FrontendId) => readonly PackedBytes[]
}

export interface ElementOptions {
  /** Objects that no holder wants stay for now. */
  readonly keepsLeftovers: boolean
  /** The kernel was not read before: what a former owner left is not foreign. */
  readonly isFirst?: boolean
  /** The objects whose elements were asked by key; undefined: the set was read as a whole. */
  readonly asked?: ReadonlySet<PackedBytes>
  /** The objects that may have elements in the set; undefined: any. */
  readonly members?: Iterable<PackedBytes>
}

interface ReadParts {
  /** The states with the part that was read; the state is the acknowledged one. */
  readonly update: (state: FrontendState, id: FrontendId) => FrontendState
  readonly ids: readonly FrontendId[] | ReadonlySet<FrontendId>
  readonly strays?: readonly PackedBytes[]
  /** A sample of what the state has from the set, if neither the desired nor the acknowledged state has it. Default: compares all parts. */
  readonly foreignIn?: (state: FrontendState, entry: FrontendEntry) => string | undefined
}

/** Reads sets into the content of one family's table. */
export class ElementReader {
  readonly #content: TableContent
  readonly #schema: NftSchema
  readonly #fixed = new Map<string, FrontendReader>()
  readonly #held = new Map<string, HeldSet>()
  readonly #numbered = new Map<string, FrontendReader>()

  constructor(content: TableContent) {
    this.#content = content
    this.#schema = content.schema
    for (const held of content.heldSets) this.#held.set(held.set.set, held)
    for (const isNodePort of [false, true])
      for (const reader of this.#fixedReaders(isNodePort)) this.#fixed.set(reader.set.set, reader)
  }

  /** The set of the schema with this name whose elements are states; undefined: there is none. */
  setOf(name: string): NfSet | undefined {
    return this.#held.get(name)?.set ?? this.#readerOf(name)?.set
  }

  /** The objects that have elements in the set, as acknowledged when the groups were made. Empty: the schema has no such set. */
  membersOf(name: string, groups: FrontendGroups): readonly PackedBytes[] {
    const held = this.#held.get(name)
    if (held !== undefined) return [...held.entries.values()].map(({ id }) => id)
    const reader = this.#readerOf(name)
    if (reader === undefined) return []
    return groups.idsOf(reader.isNodePort, (state) => reader.keysIn(state, '').length > 0)
  }

  /** The frontends with so many endpoints that a map of endpoints has them. Empty: the name is of another set. */
  expectedIn(name: string): readonly FrontendId[] {
    const numbered = numberedSet(this.#schema, name)
    if (numbered?.kind !== 'endpointAt') return []
    const { isNodePort, isShortCircuit, number } = numbered
    const ids: FrontendId[] = []
    for (const { id, acknowledged, isNodePort: isOther } of this.#content.frontends.values()) {
      const count = isShortCircuit ? acknowledged.shortCircuitCount : acknowledged.count
      if (count > number && isOther === isNodePort) ids.push(id)
    }
    return ids
  }

  /** The keys of the elements that the object has in the set, as acknowledged. */
  keysOf(name: string, id: PackedBytes): readonly PackedBytes[] {
    const held = this.#held.get(name)
    if (held !== undefined) return held.entries.get(id)?.acknowledged === true ? [id] : []
    const entry = this.#content.frontends.get(id)
    return entry === undefined ? [] : (this.#readerOf(name)?.keysIn(entry.acknowledged, id) ?? [])
  }

  /** The object to which an element of the set belongs. */
  idOf(name: string, key: PackedBytes): PackedBytes {
    const isSource = numberedSet(this.#schema, name)?.kind === 'sources'
    return isSource ? key.slice(0, -this.#content.packer.addressBytes) : key
  }

  /** The objects that `read` would change, and strays. */
  suspectsOf(name: string, elements: NfElements, members: Iterable<PackedBytes>): ReadonlySet<PackedBytes> {
    const held = this.#held.get(name)
    if (held !== undefined) return suspectsOfHeld(held, elements)
    const { frontends } = this.#content
    const { update, ids, strays = [] } = this.#readerOf(name)?.read(elements) ?? nothing
    const suspects = new Set<PackedBytes>(strays)
    for (const some of [members, ids])
      for (const id of some) {
        const state = frontends.get(id)?.acknowledged ?? absent
        if (!isSameState(update(state, id), state)) suspects.add(id)
      }
    return suspects
  }

  /**
   * Replaces what the set says in acknowledged states; undefined: the kernel has no such set. Objects that differ are dirty.
   */
  read(name: string, elements: NfElements | undefined, options: ElementOptions): ElementDrift {
    const { counts, frontends } = this.#content
    const held = this.#held.get(name)
    if (options.asked === undefined) counts.set(name, elements?.length ?? 0)
    if (held !== undefined) return readHeld(held, elements, options, counts)
    const reader = this.#readerOf(name)
    if (reader === undefined) return unchanged
    const isEmpty = elements === undefined || elements.length === 0
    // As at a start on a node without the table.
    if (isEmpty && frontends.acknowledgedCount === 0) return unchanged
    return this.#update(reader, reader.read(elements ?? new NfElements(reader.set)), options)
  }

  /** The frontends that may differ. */
  #concerned(ids: Iterable<FrontendId>, { asked, members }: ElementOptions): Iterable<FrontendEntry> {
    const { frontends } = this.#content
    for (const id of ids) if (frontends.get(id) === undefined) frontends.add(new FrontendEntry(id))
    if (asked === undefined && members === undefined) return frontends.values()
    const concerned = new Set<FrontendEntry>()
    for (const some of [ids, asked ?? [], members ?? []])
      for (const id of some) {
        const entry = frontends.get(id)
        if (entry !== undefined) concerned.add(entry)
      }
    return concerned
  }

  #update(
    { set, isNodePort, keysIn }: FrontendReader,
    { update, ids, strays = [], foreignIn = this.#foreignIn }: ReadParts,
    options: ElementOptions,
  ): ElementDrift {
    const { frontends, counts, groups } = this.#content
    const { keepsLeftovers, isFirst = false, asked } = options
    let changed = 0
    const foreign = new Sample()
    for (const entry of this.#concerned(ids, options)) {
      if (entry.isNodePort !== isNodePort) continue
      const state = update(entry.acknowledged, entry.id)
      if (state === entry.acknowledged || isSameState(state, entry.acknowledged)) continue
      changed++
      if (asked !== undefined) {
        const former = keysIn(entry.acknowledged, entry.id).length
        counts.add(set.set, keysIn(state, entry.id).length - former)
      }
      if (!isFirst) foreign.note(foreignIn(state, entry))
      entry.acknowledged = isSameState(state, absent) ? absent : state
      groups?.noteChanged(entry)
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

  #fixedReaders(isNodePort: boolean): readonly FrontendReader[] {
    const { endpoints, shortCircuit } = setsOf(this.#schema, isNodePort)
    const chains = (set: NfSet, part: ChainPart): FrontendReader => ({
      set,
      isNodePort,
      read: readChains(part),
      keysIn: (state, id) => (state[part] === '' ? [] : [id]),
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
      keysIn: (state, id) => ((state.flags & flag) === 0 ? [] : [id]),
    }))
  }

  #readerOf(name: string): FrontendReader | undefined {
    const known = this.#fixed.get(name) ?? this.#numbered.get(name)
    if (known !== undefined) return known
    const numbered = numberedSet(this.#schema, name)
    if (numbered === undefined) return undefined
    const reader = this.#makeReader(numbered)
    this.#numbered.set(name, reader)
    return reader
  }

  #makeReader(numbered: NumberedSet): FrontendReader {
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
    const keysIn = (state: FrontendState, id: FrontendId): readonly PackedBytes[] => {
      switch (kind) {
        case 'sources':
          return this.#sourceKeys(state, id, number)
        case 'endpointAt':
          return this.#hasEndpoint(isShortCircuit ? state.shortCircuit : state.endpoints, number) ? [id] : []
        case 'withCount':
          return (isShortCircuit ? state.shortCircuitCount : state.count) === number ? [id] : []
        case 'inBucket':
          return (isShortCircuit ? state.shortCircuitBucket : state.bucket) === number ? [id] : []
      }
    }
    return { set, isNodePort, read, keysIn }
  }

  #hasEndpoint(list: PackedBytes, index: number): boolean {
    const { endpointBytes } = this.#content.packer
    const at = index * endpointBytes
    return at < list.length && !list.startsWith(holeOf(endpointBytes), at)
  }

  #sourceKeys({ sources }: FrontendState, id: FrontendId, prefixLength: number): readonly PackedBytes[] {
    return splitSources(sources, this.#content.packer.addressBytes)
      .filter((network) => network.charCodeAt(0) === prefixLength)
      .map((network) => id + network.slice(1))
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
      ids: [...found.keys()],
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
      ids: [...networks.keys()],
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

/** A verdict that we never write is its text: it equals no chain of ours. */
function readChains(part: ChainPart): (elements: NfElements) => ReadParts {
  return (elements) => {
    const chains = new Map<FrontendId, string>()
    for (let index = 0; index < elements.length; index++) {
      const { code, chain = '' } = elements.verdict(index)
      chains.set(packBytes(elements.key(index)), code === 'goto' ? chain : `${code} ${chain}`)
    }
    return {
      ids: [...chains.keys()],
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
    return { ids: members, update: (state, id) => withMember(state, members.has(id)) }
  }
}

function suspectsOfHeld({ entries }: HeldSet, elements: NfElements): ReadonlySet<PackedBytes> {
  const found = keysOf(elements)
  const strange = [...found].filter((id) => entries.get(id)?.acknowledged !== true)
  const missing = [...entries.values()].filter(({ id, acknowledged }) => acknowledged && !found.has(id))
  return new Set([...strange, ...missing.map(({ id }) => id)])
}

function readHeld(
  { set, entries }: HeldSet,
  elements: NfElements | undefined,
  { keepsLeftovers, asked }: ElementOptions,
  counts: ElementCounts,
): ElementDrift {
  const found = elements === undefined ? new Set<PackedBytes>() : keysOf(elements)
  for (const id of found) if (entries.get(id) === undefined) entries.add(new HeldEntry(id))
  let changed = 0
  const foreign = new Sample()
  for (const id of asked ?? [...entries.values()].map((entry) => entry.id)) {
    const entry = entries.get(id)
    const isFound = found.has(id)
    if (entry === undefined || entry.acknowledged === isFound) continue
    changed++
    if (asked !== undefined) counts.add(set.set, isFound ? 1 : -1)
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
