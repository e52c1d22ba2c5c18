// Cuts the stream of a watch into its events. Chunks of the network do not follow their boundaries.

/** 64 MiB. The default limit of etcd is 1.5 MiB per object; JSON may need six bytes for one byte. */
export const largestFrame = 64 * 1024 * 1024

/** The stream is not a sequence of frames. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

/** Cuts a stream of chunks into frames. */
export interface Splitter {
  /** Returns the frames that this chunk completes. A frame may be a view of the chunk. Throws FrameError when a frame is too large. */
  push(chunk: Buffer): Iterable<Buffer>
  /** Ends the stream. Throws FrameError when a frame is incomplete. */
  end(): void
}

/** Collects chunks until they contain a frame. */
export class Backlog {
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

  /** Returns all collected bytes, and forgets them. */
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

/** Frames of a protobuf watch. Four bytes before each frame hold its length, big endian. */
export class LengthSplitter implements Splitter {
  readonly #backlog = new Backlog()
  readonly #largest: number
  /** The number of bytes to collect first, so that chunks are joined once per frame. */
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

/** Frames of a JSON watch. Each frame is a line. */
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
