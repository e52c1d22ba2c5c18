// Reads one set of the kernel into the acknowledged state: as a whole, or by key.
import {
  isUsableSet,
  type NfElements,
  type NfSet,
  type NfSetState,
  type Nftables,
} from '../../../kernel/index.js'
import type { TableContent } from './content.js'
import { orAbsent } from './or-absent.js'
import type { PackedBytes } from './packed.js'
import { type ElementDrift, ElementReader, type ElementOptions } from './read-elements.js'
import type { Reading } from './reading.js'

/** Elements to ask for by key. */
export interface AskedObjects {
  /** The objects of which all known elements are asked. */
  readonly ids: readonly PackedBytes[]
  /** Further keys, by object. */
  readonly keys?: ReadonlyMap<PackedBytes, readonly PackedBytes[]>
}

/** A set that the kernel does not have. */
const gone = 'gone'

export class SetReader {
  readonly elements: ElementReader
  readonly #nftables: Nftables
  readonly #content: TableContent

  constructor(nftables: Nftables, content: TableContent) {
    this.#nftables = nftables
    this.#content = content
    this.elements = new ElementReader(content)
  }

  /** The set of the schema with this name that is read; undefined: there is none, or rules fill it. */
  setOf(name: string): NfSet | undefined {
    return this.#content.staticSets.find(({ set }) => set.set === name)?.set ?? this.elements.setOf(name)
  }

  /** Whether the set has few elements, which are compared as a whole. */
  isStatic(name: string): boolean {
    return this.#content.staticSets.some(({ set }) => set.set === name)
  }

  /** Reads the set as a whole, again if a transaction comes between. `found`: the kernel's sets. Throws KernelError. */
  async readWhole(
    name: string,
    found: ReadonlyMap<string, NfSetState>,
    reading: Reading,
    options: ElementOptions,
  ): Promise<void> {
    const set = this.setOf(name)
    if (set === undefined) return
    const attributes = found.get(name)?.attributes
    const isThere = attributes !== undefined && isUsableSet(set, attributes)
    const elements = isThere ? await orAbsent(async () => await this.#nftables.elements(set)) : undefined
    if (elements !== undefined) this.#content.noteSet(name)
    this.take(name, elements, reading, options)
  }

  /**
   * Reads the set once. Returns the number of its elements, and what is to be asked by key since a transaction came between: nothing was
   * taken in then. `gone`: the kernel has no such set. Throws KernelError.
   */
  async readOnce(
    set: NfSet,
    members: readonly PackedBytes[],
    reading: Reading,
  ): Promise<{ readonly count: number; readonly suspects?: AskedObjects } | typeof gone> {
    const name = set.set
    const dumped = await orAbsent(async () => await this.#nftables.elementsOnce(set))
    if (dumped === undefined) return gone
    const { elements, isInterrupted } = dumped
    const count = elements.length
    if (isInterrupted && !this.isStatic(name)) {
      const ids = this.elements.suspectsOf(name, elements, members)
      return { count, suspects: { ids: [...ids], keys: this.#keysOf(name, elements, ids) } }
    }
    this.take(name, elements, reading, { keepsLeftovers: false, members })
    return { count }
  }

  /** Asks for elements by key. `gone`: the kernel has no such set. Throws KernelError. */
  async readByKey(
    set: NfSet,
    { ids, keys }: AskedObjects,
    reading: Reading,
    options: ElementOptions = { keepsLeftovers: false },
  ): Promise<number | typeof gone> {
    const name = set.set
    const wanted = new Set<PackedBytes>()
    for (const id of ids) {
      for (const key of this.elements.keysOf(name, id)) wanted.add(key)
      for (const key of keys?.get(id) ?? []) wanted.add(key)
    }
    if (wanted.size === 0) return 0
    const bytes = Buffer.from([...wanted].join(''), 'latin1')
    const elements = await orAbsent(async () => await this.#nftables.elementsByKey(set, bytes))
    if (elements === undefined) return gone
    this.take(name, elements, reading, { ...options, asked: new Set(ids) })
    return wanted.size
  }

  /** Takes in what was read; undefined: the kernel has no such set. */
  take(name: string, elements: NfElements | undefined, reading: Reading, options: ElementOptions): void {
    const fixed = this.#content.staticSets.find(({ set }) => set.set === name)
    if (fixed !== undefined) {
      const foreign = fixed.foreignIn(elements)
      if (fixed.read(elements)) return
      reading.note('elements-changed', name)
      if (foreign !== undefined) reading.foreign.set(name, { kind: 'elements', sample: foreign })
      return
    }
    const drift = this.elements.read(name, elements, options)
    const { changed, foreign } = drift
    reading.note('elements-changed', name, changed)
    reading.note('element-unexpected', name, drift.strays.length)
    if (foreign !== undefined) reading.foreign.set(name, { kind: 'elements', sample: foreign })
    this.#noteStrays(name, drift, options, reading)
  }

  #noteStrays(
    name: string,
    { strays: found }: ElementDrift,
    { asked }: ElementOptions,
    reading: Reading,
  ): void {
    const { strays } = this.#content
    const set = this.elements.setOf(name)
    if (set === undefined) return
    const others = asked === undefined ? [] : (strays.get(name)?.keys ?? []).filter((key) => !asked.has(key))
    const keys = [...others, ...found]
    if (keys.length < (strays.get(name)?.keys.length ?? 0)) reading.hasLostStrays = true
    if (keys.length > 0) strays.set(name, { set, keys })
    else strays.delete(name)
  }

  /** The keys of these objects that a dump has. */
  #keysOf(
    name: string,
    elements: NfElements,
    ids: ReadonlySet<PackedBytes>,
  ): ReadonlyMap<PackedBytes, readonly PackedBytes[]> {
    const keys = new Map<PackedBytes, PackedBytes[]>()
    for (let index = 0; index < elements.length; index++) {
      const key = Buffer.from(elements.key(index)).toString('latin1')
      const id = this.elements.idOf(name, key)
      if (!ids.has(id)) continue
      const known = keys.get(id)
      if (known === undefined) keys.set(id, [key])
      else known.push(key)
    }
    return keys
  }
}
