// A stream between a network connection and Node's HTTP server, which passes one request at a time.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { Turns } from './turns.js'

/** The end of a request's headers. Node's parser accepts no other form. */
const headersEnd = Buffer.from('\r\n\r\n')
/** Bytes per turn. */
const longestPiece = 16_384
const nothing = Buffer.alloc(0)

/**
 * Node's HTTP server starts every request of a buffer at once. This stream cuts the received data after each end of headers. It waits
 * for a turn before it passes a piece, and for the reply before it passes the next request. Meanwhile it does not read: it holds one
 * buffer of at most 64 KiB, and the client waits. NB: one piece may hold the end of a body and the next request, so at most two
 * replies are in progress.
 */
export class PacedSocket extends Duplex {
  readonly #socket: Socket
  readonly #turns: Turns
  /** Received data that is not passed yet. */
  #pending: Buffer = nothing
  /** Number of bytes of `headersEnd` at the end of the passed data. */
  #matched = 0
  /** The newest request. Its body may be incomplete. */
  #request: IncomingMessage | undefined
  /** Number of unfinished replies. */
  #replies = 0
  #hasReplied = false
  #hasEnded = false

  constructor(socket: Socket, turns: Turns) {
    super()
    this.#socket = socket
    this.#turns = turns
    socket.on('data', (data: Buffer) => {
      socket.pause()
      this.#pending = data
      this.#queue()
    })
    socket.on('end', () => {
      this.#hasEnded = true
      if (this.#pending.length === 0) this.push(null)
    })
    socket.on('timeout', () => this.emit('timeout'))
    // The close event that follows does the work.
    socket.on('error', () => {})
    socket.on('close', () => this.destroy())
  }

  /** Passes no other request before `response` ends. The server calls this for each request. */
  hold(request: IncomingMessage, response: ServerResponse): void {
    this.#request = request
    this.#replies++
    response.once('close', () => {
      this.#replies--
      this.#hasReplied = true
      this.#queue()
    })
  }

  /** The client has sent a request and has received no reply yet. */
  get awaitsFirstReply(): boolean {
    return !this.#hasReplied && (this.#pending.length > 0 || this.#replies > 0)
  }

  /** As in net.Socket. Node's HTTP server sets its idle limits with this method. */
  setTimeout(timeoutMs: number): this {
    this.#socket.setTimeout(timeoutMs)
    return this
  }

  /** As in net.Socket: closes the connection after the last write, without waiting for the client's end. */
  destroySoon(): void {
    this.once('finish', () => this.destroy())
    this.end()
  }

  override _read(): void {}

  override _write(data: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#socket.write(data, done)
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(done)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#turns.leave(this.#pass)
    this.#pending = nothing
    this.#socket.destroy()
    done(error)
  }

  #queue(): void {
    if (this.#pending.length === 0) return
    // The body of the only open request may pass.
    const needsBody = this.#replies === 1 && this.#request?.complete === false
    if (this.#replies === 0 || needsBody) this.#turns.enter(this.#pass)
  }

  readonly #pass = (): void => {
    const size = this.#pieceSize()
    const piece = this.#pending.subarray(0, size)
    this.#pending = this.#pending.subarray(size)
    this.push(piece)
    if (this.#pending.length > 0) this.#queue()
    else if (this.#hasEnded) this.push(null)
    else this.#socket.resume()
  }

  /** Length up to the next end of headers, which may begin in the previous piece; otherwise the longest piece. */
  #pieceSize(): number {
    const most = Math.min(this.#pending.length, longestPiece)
    for (let index = 0; index < most; index++) {
      const byte = this.#pending[index]
      if (byte === headersEnd[this.#matched]) this.#matched++
      else this.#matched = byte === headersEnd[0] ? 1 : 0
      if (this.#matched < headersEnd.length) continue
      this.#matched = 0
      return index + 1
    }
    return most
  }
}
