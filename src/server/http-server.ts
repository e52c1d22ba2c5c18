// HTTP servers that clients cannot hold up: what one may cost is bounded, and so is how many there are.
import type { RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'

/** What a client may take of a server; times in milliseconds. */
export interface HttpLimits {
  /** Bytes of a request's headers; more are answered with 431. */
  readonly maxHeaderSize: number
  /** From the connection, or the request's first byte, to the end of its headers; longer is answered with 408. */
  readonly headersTimeout: number
  /** The same, to the end of its body. */
  readonly requestTimeout: number
  /** How often the two above are looked after. */
  readonly connectionsCheckingInterval: number
  /** Between two requests of a connection. Longer than the usual period of a prober, so that no probe meets the end of it. */
  readonly keepAliveTimeout: number
  /** Without progress of a reply that the client does not read. */
  readonly timeout: number
}

export const httpLimits: HttpLimits = {
  maxHeaderSize: 8192,
  headersTimeout: 5000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 5000,
  keepAliveTimeout: 75_000,
  timeout: 15_000,
}

/**
 * The connections of one server, or of several that share them. When there are too many, the one goes that has asked nothing
 * for longest: who holds connections without a use for them shuts nobody out.
 */
export class Connections {
  readonly #limit: number
  /** That has asked nothing for longest first. */
  readonly #sockets = new Set<Socket>()

  constructor(limit: number) {
    this.#limit = limit
  }

  get size(): number {
    return this.#sockets.size
  }

  /** Counts a new connection, which may end another one. */
  admit(socket: Socket): void {
    socket.once('close', () => this.#sockets.delete(socket))
    this.#sockets.add(socket)
    if (this.#sockets.size <= this.#limit) return
    const [oldest] = this.#sockets
    if (oldest === undefined) return
    this.#sockets.delete(oldest)
    oldest.destroy()
  }

  /** It asks something. */
  touch(socket: Socket): void {
    if (this.#sockets.delete(socket)) this.#sockets.add(socket)
  }
}

export interface HttpServerOptions {
  readonly reply: RequestListener
  readonly connections: Connections
  /** Default: `httpLimits`. */
  readonly limits?: HttpLimits
}

/** A server that does not listen yet. Loads Node's HTTP, which a start can do without. */
export async function createHttpServer(options: HttpServerOptions): Promise<Server> {
  const { reply, connections, limits = httpLimits } = options
  const { createServer } = await import('node:http')
  const server = createServer({ ...limits }, (request, response) => {
    connections.touch(request.socket)
    reply(request, response)
  })
  server.timeout = limits.timeout
  server.on('connection', (socket) => connections.admit(socket))
  return server
}

/** Rejects with the error of the system where it cannot listen; `ipv6Only` as in listen() of node:net. */
export async function listen(
  server: Server,
  place: { readonly host: string; readonly port: number; readonly ipv6Only: boolean },
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(place, () => {
      server.removeListener('error', reject)
      resolve()
    })
  })
}
