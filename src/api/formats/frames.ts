// Where one event of a watch ends and the next one begins, in chunks that know nothing of it.

/** 64 MiB: etcd takes objects of 1.5 MiB unless told otherwise, JSON may need six bytes for one. */
const largestFrame = 64 * 1024 * 1024

/** What came is no sequence of frames. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

/** Cuts a stream of chunks into frames. */
export interface Splitter {
  /** The frames that this chunk completes. A frame may be a view of the chunk. Throws FrameError for one that is too large. */
  push(chunk: Buffer): Iterable<Buffer>
  /** To be called when the stream has ended. Throws FrameError when that was within a frame. */
  end(): void
}

/** Chunks until enough of them are there to look at. */
class Backlog {
  #parts: Buffer[] = []
  #size = 0

  get size(): number {
    return this.#size
  }

  add(part: Buffer): void {
    if (part.length === 0) return
    this.#parts.push(part)
    this.#size += part.length
  }

  /** All of it, once: nothing is left here. */
  take(): Buffer {
    const [first] = this.#parts
    const all =
      this.#parts.length === 1 && first !== undefined ? first : Buffer.concat(this.#parts, this.#size)
    this.#parts = []
    this.#size = 0
    return all
  }

  assertEmpty(): void {
    if (this.#size > 0) throw new FrameError('the stream ends within an event')
  }
}

const headerBytes = 4

/** Frames of a protobuf watch: their length in four bytes, big endian, comes before each. */
export class LengthSplitter implements Splitter {
  readonly #backlog = new Backlog()
  readonly #largest: number
  /** So many bytes must be there before a look is worth it: pieces are put together once per frame. */
  #wanted = headerBytes

  constructor(largest = largestFrame) {
    this.#largest = largest
  }

  *push(chunk: Buffer): Iterable<Buffer> {
    this.#backlog.add(chunk)
    if (this.#backlog.size < this.#wanted) return
    const bytes = this.#backlog.take()
    let at = 0
    this.#wanted = headerBytes
    while (bytes.length - at >= headerBytes) {
      const length = bytes.readUInt32BE(at)
      if (length > this.#largest)
        throw new FrameError(`an event of ${length} bytes: more than ${this.#largest}`)
      this.#wanted = headerBytes + length
      if (bytes.length - at < this.#wanted) break
      yield bytes.subarray(at + headerBytes, at + this.#wanted)
      at += this.#wanted
      this.#wanted = headerBytes
    }
    this.#backlog.add(bytes.subarray(at))
  }

  end(): void {
    this.#backlog.assertEmpty()
  }
}

const newline = 0x0a

/** Frames of a JSON watch: lines. */
export class LineSplitter implements Splitter {
  readonly #backlog = new Backlog()
  readonly #largest: number

  constructor(largest = largestFrame) {
    this.#largest = largest
  }

  *push(chunk: Buffer): Iterable<Buffer> {
    let from = 0
    for (let to = chunk.indexOf(newline); to >= 0; to = chunk.indexOf(newline, from)) {
      this.#add(chunk.subarray(from, to))
      from = to + 1
      if (this.#backlog.size > 0) yield this.#backlog.take()
    }
    this.#add(chunk.subarray(from))
  }

  end(): void {
    this.#backlog.assertEmpty()
  }

  #add(part: Buffer): void {
    this.#backlog.add(part)
    if (this.#backlog.size > this.#largest)
      throw new FrameError(`an event of more than ${this.#largest} bytes`)
  }
}
