// A connection between the network and Node's HTTP server, which gives the server one request at a time.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { Turns } from './turns.js'

/** Ends the headers of a request; Node's parser takes no other form. */
const headersEnd = Buffer.from('\r\n\r\n')
/** Bytes that one turn may pass on. */
const longestPiece = 16_384
const nothing = Buffer.alloc(0)

/**
 * Node's HTTP server starts every request of a buffer at once. This stream cuts what arrives after each end of headers, waits
 * for a turn before it passes a piece on, and for the reply before it passes the next request on. Meanwhile it does not read:
 * it holds one buffer of 64 KiB at most, and the client waits. NB: the end of a body and the next request may be one piece, so
 * that two replies are made at once, and never more.
 */
export class PacedSocket extends Duplex {
  readonly #socket: Socket
  readonly #turns: Turns
  /** Received, and not passed on. */
  #pending: Buffer = nothing
  /** Bytes of `headersEnd` that the pieces passed on end with. */
  #matched = 0
  /** The newest one; its body may be under way. */
  #request: IncomingMessage | undefined
  /** Replies that are not over. */
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
    // The close that follows says as much.
    socket.on('error', () => {})
    socket.on('close', () => this.destroy())
  }

  /** Passes no other request on before `response` is over; the server calls it for each request. */
  hold(request: IncomingMessage, response: ServerResponse): void {
    this.#request = request
    this.#replies++
    response.once('close', () => {
      this.#replies--
      this.#hasReplied = true
      this.#queue()
    })
  }

  /** It has asked something, and no reply has been sent yet. */
  get awaitsFirstReply(): boolean {
    return !this.#hasReplied && (this.#pending.length > 0 || this.#replies > 0)
  }

  /** As of net.Socket: Node's HTTP server bounds idle times with it. */
  setTimeout(timeoutMs: number): this {
    this.#socket.setTimeout(timeoutMs)
    return this
  }

  /** As of net.Socket: closes the connection when all is written, without waiting for the client's end. */
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
    // The rest of the only request whose reply is being made, its body, may pass.
    const isBodyWanted = this.#replies === 1 && this.#request?.complete === false
    if (this.#replies === 0 || isBodyWanted) this.#turns.enter(this.#pass)
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

  /** Up to the next end of headers, which may have begun in the piece before; else as far as a piece may be long. */
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
