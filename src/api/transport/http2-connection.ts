import { validateHeaderValue } from 'node:http'
import {
  connect,
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
} from 'node:http2'
import type { TLSSocket } from 'node:tls'
import type { Clock } from '../../clock.js'
import { closeLater, Http2Body } from './http2-body.js'
import { failureOf, Silence, Unprocessed, type Incoming, type Outgoing, type Peer } from './exchange.js'
import { peerOf } from './http1-transport.js'
import { PingCheck } from './ping-check.js'

// The server may send so many bytes before they are read. The default of 64 KiB costs a round trip each time; Go uses 4 MiB.
const streamWindow = 4 * 1024 * 1024
// A stream that is not read must not stop the others: more than all streams of one agent together.
const sessionWindow = 64 * 1024 * 1024
const sessionMegabytes = sessionWindow / 1024 / 1024

export interface Http2ConnectionOptions {
  readonly clock: Clock
  /** From 0 to below 1: spreads the times of PINGs. */
  readonly spread: number
  /** Called when the server has answered a PING. */
  readonly alive: () => void
  /** When it aborts, all requests fail at once, and the connection ends. */
  readonly end: AbortSignal
}

type Headers = IncomingHttpHeaders & IncomingHttpStatusHeader

/** One HTTP/2 connection to the server of a TLS socket. All requests share it. */
export class Http2Connection {
  readonly #session: ClientHttp2Session
  readonly #clock: Clock
  readonly #peer: Peer | undefined
  readonly #check: PingCheck
  /** Called when PINGs no longer watch over the connection. */
  readonly #onPingsEnd = new Set<() => void>()
  #streams = 0
  /** An answer is overdue, and the server has given no sign of life since. */
  #isSuspect = false
  #isRetired = false

  /** Resolves when the server has sent its settings. Rejects when it does not, or when `signal` aborts before. */
  static async open(
    socket: TLSSocket,
    options: Http2ConnectionOptions,
    signal: AbortSignal,
  ): Promise<Http2Connection> {
    const connection = new Http2Connection(socket, options)
    const session = connection.#session
    await new Promise<void>((resolve, reject) => {
      const stop = (): void => {
        const error = failureOf(signal, false)
        connection.#destroyLater(error)
        reject(error)
      }
      if (signal.aborted) stop()
      signal.addEventListener('abort', stop)
      // NB: the session may tell of neither: when the server refuses the client's certificate under TLS 1.3 (Node 20.20.2).
      socket.once('error', reject)
      socket.once('close', () => reject(new Error('the server closed the connection at once')))
      // NB: only then is the number of streams known that the server permits.
      session.once('remoteSettings', () => {
        signal.removeEventListener('abort', stop)
        resolve()
      })
      session.once('error', reject)
      session.once('close', () => reject(new Error('the server closed the connection at once')))
    })
    return connection
  }

  private constructor(socket: TLSSocket, { clock, spread, alive, end }: Http2ConnectionOptions) {
    this.#clock = clock
    this.#peer = peerOf(socket)
    this.#session = connect('https://server', {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: streamWindow },
      maxSessionMemory: sessionMegabytes,
    })
    this.#check = new PingCheck({
      clock,
      spread,
      ping: (done) => {
        if (!this.#session.destroyed) this.#session.ping(done)
      },
      received: () => socket.bytesRead,
      isNeeded: () => {
        // As an idle connection of HTTP/1.1, it must not cost the server memory.
        if (this.#streams === 0) this.retire()
        return this.#streams > 0 && this.#isPinged
      },
      alive: () => {
        this.#isSuspect = false
        alive()
      },
      lost: (problem) => this.#destroyLater(new Silence(problem)),
    })
    this.#session.once('connect', () => this.#session.setLocalWindowSize(sessionWindow))
    // The requests on the connection get the error.
    this.#session.on('error', () => undefined)
    this.#session.once('goaway', () => {
      for (const call of this.#onPingsEnd) call()
      this.#onPingsEnd.clear()
    })
    const stop = (): void => this.#destroyLater(failureOf(end, false))
    if (end.aborted) stop()
    end.addEventListener('abort', stop)
    this.#session.once('close', () => {
      this.#check.stop()
      end.removeEventListener('abort', stop)
    })
  }

  /** No further request can be sent. Those that are under way may go on. */
  get isClosed(): boolean {
    return this.#isRetired || this.#session.closed || this.#session.destroyed
  }

  /** Whether PINGs watch over the connection. NB: Node sends none after a GOAWAY. */
  get #isPinged(): boolean {
    return !this.#session.closed && !this.#session.destroyed
  }

  /** Whether the server may take another request now. */
  get isFree(): boolean {
    const { maxConcurrentStreams = Infinity } = this.isClosed ? {} : this.#session.remoteSettings
    return !this.isClosed && !this.#isSuspect && this.#streams < Math.max(maxConcurrentStreams, 1)
  }

  /** Rejects with Unprocessed when the server has refused the stream. */
  async send({ method, url, headers, body: sent }: Outgoing, signal: AbortSignal): Promise<Incoming> {
    if (signal.aborted) throw failureOf(signal, false)
    for (const [name, value] of Object.entries(headers)) validateHeaderValue(name, value)
    const { pathname, search, host } = url
    const stream = this.#session.request(
      { ':method': method, ':path': `${pathname}${search}`, ':authority': host, ...headers },
      { endStream: sent === undefined },
    )
    this.#count(stream)
    // NB: made now, because the end may come with the headers.
    const body = new Http2Body(stream, this.#clock)
    body.on('error', () => undefined)
    const answer = await new Promise<Headers>((resolve, reject) => {
      signal.addEventListener('abort', () => {
        if (signal.reason instanceof Silence) this.#suspect()
        reject(failureOf(signal, false))
        closeLater(stream, this.#clock)
      })
      stream.once('response', resolve)
      stream.once('error', (error) => {
        const isRefused = stream.rstCode === constants.NGHTTP2_REFUSED_STREAM
        reject(isRefused ? new Unprocessed('the server takes no further request on this connection') : error)
      })
      stream.once('close', () => reject(new Error('the server closed the connection')))
      if (sent !== undefined) stream.end(sent)
    })
    const onPingsEnd = (call: () => void): void => {
      if (!this.#isPinged) return call()
      this.#onPingsEnd.add(call)
      body.once('close', () => this.#onPingsEnd.delete(call))
    }
    return {
      status: answer[':status'] ?? 0,
      headers: answer,
      body,
      peer: this.#peer,
      liveness: 'ping',
      onPingsEnd,
    }
  }

  #suspect(): void {
    this.#isSuspect = true
    if (this.#isPinged) this.#check.ask()
  }

  #count(stream: ClientHttp2Stream): void {
    this.#streams++
    stream.once('close', () => {
      this.#streams--
      if (this.#isRetired && this.#streams === 0) this.#closeLater()
    })
  }

  /** Takes no further request, and ends when those that are under way have ended. */
  retire(): void {
    if (this.#isRetired) return
    this.#isRetired = true
    if (this.#streams === 0) this.#closeLater()
  }

  #closeLater(): void {
    this.#clock.schedule(0, () => {
      if (!this.#session.destroyed) this.#session.close()
    })
  }

  /** All requests fail with the error. NB: not at once, for the reason of `closeLater`. */
  #destroyLater(error: Error): void {
    this.#isRetired = true
    this.#check.stop()
    this.#clock.schedule(0, () => this.#session.destroy(error))
  }
}
