import { constants, type ClientHttp2Stream } from 'node:http2'
import { Readable } from 'node:stream'
import type { Clock } from '../../clock.js'

// Frames of a list are collected before they are read.
const highWaterMark = 256 * 1024

/** The body of an answer over HTTP/2. It fails when the stream ends before its end, which a stream of Node does not. */
export class Http2Body extends Readable {
  readonly #stream: ClientHttp2Stream
  readonly #clock: Clock
  #isWhole = false

  constructor(stream: ClientHttp2Stream, clock: Clock) {
    super({ highWaterMark })
    this.#stream = stream
    this.#clock = clock
    stream.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) stream.pause()
    })
    stream.once('end', () => {
      if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) return
      this.#isWhole = true
      this.push(null)
    })
    stream.on('error', (error) => this.destroy(error))
    stream.once('close', () => {
      if (!this.#isWhole) this.destroy(new Error('the connection ended before the end of the answer'))
    })
  }

  override _read(): void {
    this.#stream.resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    closeLater(this.#stream, this.#clock)
    done(error)
  }
}

/**
 * Resets a stream that has not ended, and frees one that has. NB: never at once. While Node reads a frame it calls JavaScript, and a reset from there frees the
 * stream in nghttp2, which then writes to it: memory is damaged (Node 20.20.2; valgrind shows it).
 */
export function closeLater(stream: ClientHttp2Stream, clock: Clock): void {
  clock.schedule(0, () => {
    if (stream.destroyed) return
    // A stream whose end has come but is not read stays open for ever.
    if (stream.closed) stream.destroy()
    else stream.close(constants.NGHTTP2_CANCEL)
  })
}
