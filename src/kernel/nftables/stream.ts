// Streams to and from native/nftables (stream.h): a sequence of values, little endian, each a multiple of four bytes.

import { constants } from 'node:os'
import { KernelError } from '../../errors.js'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Writes a stream. */
export class StreamWriter {
  #bytes: Uint8Array<ArrayBuffer>
  #view: DataView
  #used = 0

  constructor(capacity = 1024) {
    this.#bytes = new Uint8Array(capacity)
    this.#view = new DataView(this.#bytes.buffer)
  }

  get size(): number {
    return this.#used
  }

  u32(value: number): void {
    const offset = this.#reserve(4) // may replace the view
    this.#view.setUint32(offset, value, true)
  }

  /** A number below 2^53. */
  u64(value: number): void {
    const offset = this.#reserve(8)
    this.#view.setUint32(offset, value % 2 ** 32, true)
    this.#view.setUint32(offset + 4, Math.floor(value / 2 ** 32), true)
  }

  bytes(value: Uint8Array): void {
    this.u32(value.length)
    const offset = this.#reserve(value.length)
    this.#bytes.set(value, offset)
    this.#bytes.fill(0, offset + value.length, this.#used)
  }

  text(value: string): void {
    this.bytes(encoder.encode(value))
  }

  /** Overwrites the u32 at `offset`. */
  patch(offset: number, value: number): void {
    this.#view.setUint32(offset, value, true)
  }

  /** A view of the written bytes; valid until the next write. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#used)
  }

  /** Makes room for `size` bytes and their padding. Returns their offset. */
  #reserve(size: number): number {
    const offset = this.#used
    this.#used += (size + 3) & ~3
    if (this.#used > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#used, this.#bytes.length * 2))
      grown.set(this.#bytes)
      this.#bytes = grown
      this.#view = new DataView(grown.buffer)
    }
    return offset
  }
}

/** KernelError EPROTO: the kernel's answer has an unexpected form. */
export function malformed(problem: string): KernelError {
  const { EPROTO: errno } = constants.errno
  return new KernelError({
    errno,
    subsystem: 'nftables',
    operation: 'read nf_tables answer',
    extack: problem,
  })
}

/** Reads a stream. A read beyond the end throws KernelError EPROTO. */
export class StreamReader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #offset = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get isAtEnd(): boolean {
    return this.#offset >= this.#bytes.length
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true)
  }

  /** Exact below 2^53. */
  u64(): number {
    const offset = this.#take(8)
    return this.#view.getUint32(offset, true) + this.#view.getUint32(offset + 4, true) * 2 ** 32
  }

  /** A view, no copy. */
  bytes(): Uint8Array {
    const length = this.u32()
    const offset = this.#take(length)
    return this.#bytes.subarray(offset, offset + length)
  }

  text(): string {
    return decoder.decode(this.bytes())
  }

  #take(size: number): number {
    const offset = this.#offset
    if (offset + size > this.#bytes.length) throw malformed(`it ends at byte ${offset}`)
    this.#offset += (size + 3) & ~3
    return offset
  }
}
