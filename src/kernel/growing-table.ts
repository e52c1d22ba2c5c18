import { recordBuffer, type RecordBuffer, type RecordLayout } from './records.js'

/** A table of equal records that grows at its end. */
export class GrowingTable {
  #buffer: RecordBuffer
  #length = 0
  readonly #size: number

  constructor({ size }: RecordLayout, capacity: number) {
    this.#size = size
    this.#buffer = recordBuffer(capacity * size)
  }

  get length(): number {
    return this.#length
  }

  /** Where records are written; valid until the next `add`. */
  get buffer(): RecordBuffer {
    return this.#buffer
  }

  /** The written records; more may be added behind them. */
  get bytes(): Uint8Array {
    return this.#buffer.bytes.subarray(0, this.#length * this.#size)
  }

  /** Byte offset of a new zeroed record. */
  add(): number {
    const at = this.#length * this.#size
    this.#length++
    if (at + this.#size > this.#buffer.bytes.length) {
      const grown = recordBuffer(Math.max(8 * this.#size, 2 * this.#buffer.bytes.length))
      grown.bytes.set(this.#buffer.bytes)
      this.#buffer = grown
    }
    return at
  }
}
