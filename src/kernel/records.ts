// Reads and writes the packed records that cross into native/. native/ipvs/record.h has their conventions, layout.ts of each
// subsystem their layouts.
import { readAddress, type IpAddress, type IpFamily } from '../address.js'
import { BugError } from '../errors.js'

/** Size of a record and the byte offset of each of its fields. */
export type RecordLayout = Readonly<Record<string, number>> & { readonly size: number }

/** AF_INET and AF_INET6 of linux/socket.h. */
export const addressFamily = { ipv4: 2, ipv6: 10 } as const

export function familyFromByte(byte: number): IpFamily {
  return byte === addressFamily.ipv6 ? 'ipv6' : 'ipv4'
}

/** Longest prefix of a family: a single address. */
export function hostPrefixLength(family: IpFamily): number {
  return family === 'ipv4' ? 32 : 128
}

/** A table of equal records, the base of the cursors. A read past the end throws RangeError. */
export class RecordTable {
  readonly length: number
  protected readonly bytes: Uint8Array
  protected readonly view: DataView
  readonly #size: number

  constructor(bytes: Uint8Array, layout: RecordLayout) {
    if (bytes.byteLength % layout.size !== 0) {
      throw new BugError(`${bytes.byteLength} bytes are not a multiple of the record size ${layout.size}`)
    }
    this.bytes = bytes
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#size = layout.size
    this.length = bytes.byteLength / layout.size
  }

  protected u8(index: number, offset: number): number {
    return this.view.getUint8(index * this.#size + offset)
  }

  protected u16(index: number, offset: number): number {
    return this.view.getUint16(index * this.#size + offset, true)
  }

  protected u32(index: number, offset: number): number {
    return this.view.getUint32(index * this.#size + offset, true)
  }

  protected i32(index: number, offset: number): number {
    return this.view.getInt32(index * this.#size + offset, true)
  }

  /** As a number; exact below 2^53 (9 petabytes). */
  protected u64(index: number, offset: number): number {
    return this.u32(index, offset) + this.u32(index, offset + 4) * 2 ** 32
  }

  protected ip(index: number, offset: number, family: IpFamily): IpAddress {
    return readAddress(this.bytes, index * this.#size + offset, family)
  }

  /** ASCII text, NUL padded to 16 bytes. */
  protected text(index: number, offset: number): string {
    const start = index * this.#size + offset
    let text = ''
    for (let i = start; i < start + 16; i++) {
      const code = this.bytes[i] ?? 0
      if (code === 0) break
      text += String.fromCharCode(code)
    }
    return text
  }
}

/** A buffer with its two views. */
export interface RecordBuffer {
  readonly bytes: Buffer
  readonly view: DataView
}

/** A zeroed buffer. */
export function recordBuffer(size: number): RecordBuffer {
  const bytes = Buffer.alloc(size)
  return { bytes, view: new DataView(bytes.buffer) }
}

/** Writes ASCII text NUL padded into a zeroed field of 16 bytes. */
export function writeText(bytes: Uint8Array, offset: number, text: string): void {
  if (text.length > 15)
    throw new BugError(`"${text}" is longer than the 15 characters that the kernel stores`)
  for (let i = 0; i < text.length; i++) bytes[offset + i] = text.charCodeAt(i)
}
