import type { Clock } from '../../clock.js'
import { failureOf, Unprocessed, type Incoming, type Outgoing, type Transport } from './exchange.js'
import type { Http1Transport } from './http1-transport.js'
import type { Http2Connection } from './http2-connection.js'
import { hostOf } from '../url-host.js'
import { keyOf, openTls } from './tls-socket.js'

export interface Http2TransportOptions {
  readonly clock: Clock
  /** For a server that does not offer HTTP/2. */
  readonly http1: Http1Transport
  /** When it aborts, all connections end. */
  readonly end: AbortSignal
  /** Called when the server has answered a PING. */
  readonly alive: () => void
}

/** A connection that is being opened, for all requests that wait for it. */
interface Attempt {
  /** undefined: the server speaks only HTTP/1.1. */
  readonly opened: Promise<Http2Connection | undefined>
  /** Ends the attempt for all of them. */
  readonly end: AbortController
}

/**
 * HTTP/2 over TLS where the server offers it (ALPN), else HTTP/1.1. All requests share one connection, as in client-go. There are more
 * while the server permits fewer requests on one than there are, and after a GOAWAY or new certificates until the older requests end.
 */
export class Http2Transport implements Transport {
  readonly #options: Http2TransportOptions
  /** The connections that may take a request, and the TLS options of each. */
  readonly #connections = new Map<Http2Connection, string>()
  /** By TLS options. */
  readonly #attempts = new Map<string, Attempt>()

  constructor(options: Http2TransportOptions) {
    this.#options = options
  }

  async send(outgoing: Outgoing, signal: AbortSignal): Promise<Incoming> {
    const key = keyOf(outgoing.login.tls, hostOf(outgoing.url))
    for (let isRefused = false; ;) {
      // NB: no other request may come between the choice of a connection and the request on it.
      const free = this.#freeConnection(key)
      if (free !== undefined) {
        const incoming = await unlessRefused(free.send(outgoing, signal), isRefused)
        if (incoming !== undefined) return incoming
        isRefused = true
        continue
      }
      // While such a connection is open, the server is the same. A later one may offer HTTP/2.
      if (this.#options.http1.isOpen) return await this.#options.http1.send(outgoing, signal)
      const opened = await this.#wait(this.#attemptFor(key, outgoing), signal)
      if (opened?.isClosed === true) throw new Error('the server closed the connection at once')
    }
  }

  #freeConnection(key: string): Http2Connection | undefined {
    let free: Http2Connection | undefined
    for (const [connection, ownKey] of this.#connections) {
      if (connection.isClosed) this.#connections.delete(connection)
      // NB: after a renewal of certificates, the earlier connection gets no request any more, and closes when it has none.
      else if (ownKey === key && connection.isFree) free ??= connection
    }
    return free
  }

  #attemptFor(key: string, outgoing: Outgoing): Attempt {
    const known = this.#attempts.get(key)
    if (known !== undefined) return known
    const end = new AbortController()
    const forget = (): void => {
      if (this.#attempts.get(key) === attempt) this.#attempts.delete(key)
    }
    const opened = this.#open(key, outgoing, end.signal).finally(forget)
    const attempt = { opened, end }
    end.signal.addEventListener('abort', forget)
    this.#attempts.set(key, attempt)
    return attempt
  }

  /** NB: the first request whose time is over ends the attempt for all, so that the next one opens another. */
  async #wait({ opened, end }: Attempt, signal: AbortSignal): Promise<Http2Connection | undefined> {
    if (signal.aborted) throw failureOf(signal, false)
    const left = new AbortController()
    const stopped = new Promise<never>((_, reject) => {
      const stop = (): void => {
        end.abort(signal.reason)
        // The attempt knows the better reason, if it ends.
        this.#options.clock.schedule(0, () => reject(failureOf(signal, false)))
      }
      signal.addEventListener('abort', stop, { signal: left.signal })
    })
    try {
      return await Promise.race([opened, stopped])
    } finally {
      left.abort()
    }
  }

  async #open(key: string, outgoing: Outgoing, signal: AbortSignal): Promise<Http2Connection | undefined> {
    const socket = await openTls(outgoing, signal)
    if (socket.alpnProtocol !== 'h2') {
      this.#options.http1.offer(socket, key)
      return undefined
    }
    // Imported here because a server without HTTP/2 does not need it.
    const { Http2Connection: Connection } = await import('./http2-connection.js')
    if (socket.destroyed) throw new Error('the server closed the connection at once')
    const options = { ...this.#options, spread: outgoing.spread }
    const connection = await Connection.open(socket, options, signal)
    this.#connections.set(connection, key)
    return connection
  }
}

/** undefined: the server did not take the request, and it may be sent again, unless it was `already`. */
async function unlessRefused(sent: Promise<Incoming>, already: boolean): Promise<Incoming | undefined> {
  return await sent.catch((error: unknown) => {
    if (error instanceof Unprocessed && !already) return undefined
    throw error
  })
}
