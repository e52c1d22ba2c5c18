// A stream between a network connection and Node's HTTP server, which passes one request at a time.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { formatCidr, parseCidr } from '../address.js'
import type { Turns } from './turns.js'

const [carriageReturn, lineFeed] = [0x0d, 0x0a]
/** Bytes per turn. */
const longestPiece = 16_384
const nothing = Buffer.alloc(0)

/**
 * Node's HTTP server starts every request of a buffer at once. This stream cuts the received data after each end of headers. It waits
 * for a turn before it passes a piece, and for the reply before it passes the next request. Meanwhile it does not read: it holds one
 * buffer of at most 64 KiB, net.Socket another one, and the client waits. NB: one piece may hold the end of a body and the next request, so at most two
 * replies are in progress.
 */
export class PacedSocket extends Duplex {
  readonly #socket: Socket
  readonly #turns: Turns
  /** Received data that is not passed yet. */
  #pending: Buffer = nothing
  /** The passed data ends with a line feed, or with one and a carriage return: a line feed after it ends the headers. */
  #isAtLineStart = false
  /** The last byte of the passed data is a carriage return. */
  #isAfterReturn = false
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
    this.source = sourceOf(socket.remoteAddress)
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

  /** The client: its IPv4 address, or the /64 network of its IPv6 address, which one machine may have as a whole. */
  readonly source: string

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
    this.#turns.leave(this.source, this.#pass)
    this.#pending = nothing
    this.#socket.destroy()
    done(error)
  }

  #queue(): void {
    if (this.#pending.length === 0) return
    // The body of the only open request may pass.
    const needsBody = this.#replies === 1 && this.#request?.complete === false
    if (this.#replies === 0 || needsBody) this.#turns.enter(this.source, this.#pass)
  }

  readonly #pass = (): void => {
    // Outside of a body: a body that arrives after its reply is not awaited any more, and its bytes stay as they are.
    const isHead = this.#request?.complete !== false
    const isAfterReturn = this.#isAfterReturn
    const size = this.#nextPiece()
    const piece = this.#pending.subarray(0, size)
    this.#pending = this.#pending.subarray(size)
    this.push(isHead ? withReturns(piece, isAfterReturn) : piece)
    if (this.#pending.length > 0) this.#queue()
    else if (this.#hasEnded) this.push(null)
    else this.#socket.resume()
  }

  /** Length up to the next end of headers, which may begin in the previous piece; otherwise the longest piece. */
  #nextPiece(): number {
    const most = Math.min(this.#pending.length, longestPiece)
    for (let index = 0; index < most; index++) {
      const byte = this.#pending[index]
      if (byte === lineFeed) {
        const isEnd = this.#isAtLineStart
        this.#isAtLineStart = !isEnd
        this.#isAfterReturn = false
        if (isEnd) return index + 1
      } else {
        const isReturn = byte === carriageReturn
        this.#isAtLineStart = this.#isAtLineStart && isReturn && !this.#isAfterReturn
        this.#isAfterReturn = isReturn
      }
    }
    return most
  }
}

/**
 * The piece with CR LF at the end of each line. Go's server accepts lines that end with LF alone, and Node's parser refuses them. Its
 * lenient form would accept a CR alone too, at which this stream does not cut. `isAfterReturn`: the byte before is a CR.
 */
function withReturns(piece: Buffer, isAfterReturn: boolean): Buffer {
  const text = piece.toString('latin1')
  const before = isAfterReturn ? '\r' : ''
  const whole = `${before}${text}`.replaceAll(/(?<!\r)\n/gu, '\r\n')
  return Buffer.from(whole.slice(before.length), 'latin1')
}

/** Empty: a connection over a Unix socket, or one that is closed already. */
function sourceOf(address = ''): string {
  // Without the zone of a link-local address.
  const [bare = ''] = address.split('%')
  // A socket of both families has IPv4 clients as `::ffff:192.0.2.1`.
  if (bare.includes('.')) return bare.slice(bare.lastIndexOf(':') + 1)
  const network = parseCidr(`${bare}/64`)
  return network === undefined ? bare : formatCidr(network)
}
