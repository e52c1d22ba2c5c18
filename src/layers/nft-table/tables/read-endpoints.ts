// Groups the elements of a map of endpoints by frontend, without an object per element.
import type { NfElements } from '../../../kernel/index.js'
import { shortCircuitOffset } from '../compile/schema.js'
import { type FrontendId, packBytes, type PackedBytes } from './packed.js'

const indexBytes = 4

/** The endpoints of a frontend by class: those for all connections, and those for short circuits. */
export interface EndpointLists {
  readonly endpoints: PackedBytes
  readonly shortCircuit: PackedBytes
}

export interface ReadEndpoints {
  readonly lists: ReadonlyMap<FrontendId, EndpointLists>
  /** Keys of elements that are not part of a list without holes from index 0 on. */
  readonly strays: readonly PackedBytes[]
}

export function readEndpoints(elements: NfElements): ReadEndpoints {
  const lanes = new Lanes(elements)
  const lists = new Map<FrontendId, EndpointLists>()
  for (const [slot, id] of lanes.ids.entries())
    lists.set(id, { endpoints: lanes.list(2 * slot), shortCircuit: lanes.list(2 * slot + 1) })
  return { lists, strays: lanes.strays() }
}

/** The elements of a map, sorted into lanes: two of each frontend, one for each list. */
class Lanes {
  readonly #elements: NfElements
  readonly #bytes: Buffer
  readonly #idBytes: number
  readonly #slots = new Map<FrontendId, number>()
  /** Lane of each element. */
  readonly #laneOf: Uint32Array
  /** Number of elements of each lane. */
  readonly #counts: number[] = []
  /** First place of each lane in `#data`. */
  readonly #starts: Uint32Array
  readonly #data: Buffer
  readonly #isPlaced: Uint8Array
  #hasStrays = false
  /** Length of each lane up to its first hole; empty without strays. */
  #lengths: readonly number[] = []

  constructor(elements: NfElements) {
    const { buffer, byteOffset, byteLength } = elements.bytes
    const { keyBytes, dataBytes } = elements.layout
    this.#elements = elements
    this.#bytes = Buffer.from(buffer, byteOffset, byteLength)
    this.#idBytes = keyBytes - indexBytes
    this.#laneOf = new Uint32Array(elements.length)
    for (let element = 0; element < elements.length; element++) this.#count(element)
    this.#starts = new Uint32Array(this.#counts.length + 1)
    for (const [lane, count] of this.#counts.entries())
      this.#starts[lane + 1] = (this.#starts[lane] ?? 0) + count
    this.#data = Buffer.alloc(elements.length * dataBytes)
    this.#isPlaced = new Uint8Array(elements.length)
    for (let element = 0; element < elements.length; element++) this.#place(element)
    if (this.#hasStrays) this.#lengths = this.#counts.map((count, lane) => this.#firstHole(lane, count))
  }

  get ids(): readonly FrontendId[] {
    return [...this.#slots.keys()]
  }

  /** Data of the elements with index 0, 1, .. up to the first hole. */
  list(lane: number): PackedBytes {
    const { dataBytes } = this.#elements.layout
    const start = this.#starts[lane] ?? 0
    return this.#data.toString('latin1', start * dataBytes, (start + this.#lengthOf(lane)) * dataBytes)
  }

  /** Keys of elements behind a hole. */
  strays(): readonly PackedBytes[] {
    if (!this.#hasStrays) return []
    const keys: PackedBytes[] = []
    for (let element = 0; element < this.#elements.length; element++)
      if (this.#indexOf(element) % shortCircuitOffset >= this.#lengthOf(this.#laneOf[element] ?? 0))
        keys.push(packBytes(this.#elements.key(element)))
    return keys
  }

  #indexOf(element: number): number {
    return this.#bytes.readUInt32LE(element * this.#elements.stride + this.#idBytes)
  }

  #count(element: number): void {
    const at = element * this.#elements.stride
    const id = this.#bytes.toString('latin1', at, at + this.#idBytes)
    let slot = this.#slots.get(id)
    if (slot === undefined) {
      slot = this.#slots.size
      this.#slots.set(id, slot)
      this.#counts.push(0, 0)
    }
    const lane = 2 * slot + (this.#indexOf(element) >= shortCircuitOffset ? 1 : 0)
    this.#laneOf[element] = lane
    this.#counts[lane] = (this.#counts[lane] ?? 0) + 1
  }

  /** Without holes, all indices of a lane are smaller than its count. */
  #place(element: number): void {
    const { layout, stride } = this.#elements
    const { keyBytes, dataBytes } = layout
    const lane = this.#laneOf[element] ?? 0
    const index = this.#indexOf(element) % shortCircuitOffset
    if (index >= (this.#counts[lane] ?? 0)) {
      this.#hasStrays = true
      return
    }
    const place = (this.#starts[lane] ?? 0) + index
    const from = element * stride + keyBytes
    this.#isPlaced[place] = 1
    this.#bytes.copy(this.#data, place * dataBytes, from, from + dataBytes)
  }

  /** Length of a lane up to its first hole. */
  #lengthOf(lane: number): number {
    return (this.#hasStrays ? this.#lengths : this.#counts)[lane] ?? 0
  }

  #firstHole(lane: number, count: number): number {
    const start = this.#starts[lane] ?? 0
    for (let index = 0; index < count; index++) if (this.#isPlaced[start + index] !== 1) return index
    return count
  }
}
