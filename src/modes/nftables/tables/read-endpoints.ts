// Groups the elements of a map of endpoints by frontend, without an object per element.
import { NfElements } from '../../../kernel/index.js'
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

/** A list is one of two lanes of a frontend. */
interface Lanes {
  /** Lane of each element. */
  readonly laneOf: Uint32Array
  /** Number of elements of each lane. */
  readonly counts: readonly number[]
  readonly ids: readonly FrontendId[]
}

export function readEndpoints(elements: NfElements): ReadEndpoints {
  const { keyBytes, dataBytes } = elements.layout
  const idBytes = keyBytes - indexBytes
  const bytes = Buffer.from(elements.bytes.buffer, elements.bytes.byteOffset, elements.bytes.byteLength)
  const { laneOf, counts, ids } = findLanes(bytes, elements, idBytes)
  const starts = new Uint32Array(counts.length + 1)
  for (const [lane, count] of counts.entries()) starts[lane + 1] = (starts[lane] ?? 0) + count
  const data = Buffer.alloc(elements.length * dataBytes)
  const isPlaced = new Uint8Array(elements.length)
  let misplaced = 0
  for (let element = 0, at = 0; element < elements.length; element++, at += elements.stride) {
    const lane = laneOf[element] ?? 0
    const index = bytes.readUInt32LE(at + idBytes) % shortCircuitOffset
    if (index >= (counts[lane] ?? 0)) {
      misplaced++
      continue
    }
    const place = (starts[lane] ?? 0) + index
    isPlaced[place] = 1
    bytes.copy(data, place * dataBytes, at + keyBytes, at + keyBytes + dataBytes)
  }
  const lengths =
    misplaced === 0 ? counts : counts.map((count, lane) => lengthOf(isPlaced, starts[lane] ?? 0, count))
  const lists = new Map<FrontendId, EndpointLists>()
  const listOf = (lane: number): PackedBytes => {
    const start = starts[lane] ?? 0
    return data.toString('latin1', start * dataBytes, (start + (lengths[lane] ?? 0)) * dataBytes)
  }
  for (const [slot, id] of ids.entries())
    lists.set(id, { endpoints: listOf(2 * slot), shortCircuit: listOf(2 * slot + 1) })
  const strays: PackedBytes[] = []
  for (let element = 0; misplaced > 0 && element < elements.length; element++) {
    const index = bytes.readUInt32LE(element * elements.stride + idBytes) % shortCircuitOffset
    if (index >= (lengths[laneOf[element] ?? 0] ?? 0)) strays.push(packBytes(elements.key(element)))
  }
  return { lists, strays }
}

function findLanes(bytes: Buffer, elements: NfElements, idBytes: number): Lanes {
  const slots = new Map<FrontendId, number>()
  const laneOf = new Uint32Array(elements.length)
  const counts: number[] = []
  for (let element = 0, at = 0; element < elements.length; element++, at += elements.stride) {
    const id = bytes.toString('latin1', at, at + idBytes)
    let slot = slots.get(id)
    if (slot === undefined) {
      slot = slots.size
      slots.set(id, slot)
      counts.push(0, 0)
    }
    const lane = 2 * slot + (bytes.readUInt32LE(at + idBytes) >= shortCircuitOffset ? 1 : 0)
    laneOf[element] = lane
    counts[lane] = (counts[lane] ?? 0) + 1
  }
  return { laneOf, counts, ids: [...slots.keys()] }
}

/** Length of the part of a lane that has no hole. */
function lengthOf(isPlaced: Uint8Array, start: number, count: number): number {
  for (let index = 0; index < count; index++) if (isPlaced[start + index] !== 1) return index
  return count
}
