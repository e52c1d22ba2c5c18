// HTTP servers with bounds on the number of clients and on the cost of each, so that clients cannot exhaust them.
import type { RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { PacedSocket } from './paced-socket.js'
import type { Turns } from './turns.js'

/** Limits per client. Times are in milliseconds. */
export interface HttpLimits {
  /** Bytes of a request's headers. A longer header gets the reply 431. */
  readonly maxHeaderSize: number
  /** From the connection, or the request's first byte, to the end of its headers. A slower request gets the reply 408. */
  readonly headersTimeout: number
  /** The same, to the end of the body. */
  readonly requestTimeout: number
  /** Period of the check of the two limits above. */
  readonly connectionsCheckingInterval: number
  /** Between two requests of a connection. Longer than a prober's usual period, so that no probe meets a closing connection. */
  readonly keepAliveTimeout: number
  /** Without progress, while the client does not read the reply. */
  readonly timeout: number
}

export const httpLimits: HttpLimits = {
  maxHeaderSize: 32_768,
  headersTimeout: 5000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 5000,
  keepAliveTimeout: 75_000,
  timeout: 15_000,
}

/**
 * Connections of a server that has an address of the network. Probers and scrapers are few. A client whose connections all find a place
 * waits for its share of the turns. One that has more of them loses some, and new ones take their place: the event loop has to accept them
 * all. 512 connections that hold as much as they can (PacedSocket) take 83 MB.
 */
export const connectionLimit = 512

/**
 * The connections of one server, or of several servers that share a limit, and the turns of their requests. A connection over the
 * limit closes one of the source with the most connections: the one without a request for the longest time, or, if all wait for their
 * first reply, the oldest one. So a source that floods the server loses its own connections, and a probe from another source gets its
 * turn.
 */
export class Connections {
  readonly turns: Turns
  readonly #limit: number
  /** With their sources, least recently used first. */
  readonly #sockets = new Map<PacedSocket, string>()
  /** Number of connections by source. */
  readonly #counts = new Map<string, number>()

  constructor(limit: number, turns: Turns) {
    this.#limit = limit
    this.turns = turns
  }

  get size(): number {
    return this.#sockets.size
  }

  /** Adds a new connection. Over the limit, closes one. */
  admit(socket: PacedSocket): void {
    socket.once('close', () => this.#forget(socket))
    const { source } = socket
    this.#sockets.set(socket, source)
    this.#counts.set(source, (this.#counts.get(source) ?? 0) + 1)
    if (this.#sockets.size <= this.#limit) return
    const excess = this.#chooseExcess(socket)
    if (excess === undefined) return
    this.#forget(excess)
    excess.destroy()
  }

  /** The connection to close. undefined: there is none. */
  #chooseExcess(newest: PacedSocket): PacedSocket | undefined {
    const most = Math.max(...this.#counts.values())
    let oldest: PacedSocket | undefined
    for (const [socket, source] of this.#sockets) {
      if (this.#counts.get(source) !== most) continue
      // The request of the newest one is still on its way.
      if (!socket.awaitsFirstReply && socket !== newest) return socket
      oldest ??= socket
    }
    return oldest
  }

  #forget(socket: PacedSocket): void {
    const source = this.#sockets.get(socket)
    if (source === undefined) return
    this.#sockets.delete(socket)
    const left = (this.#counts.get(source) ?? 0) - 1
    if (left > 0) this.#counts.set(source, left)
    else this.#counts.delete(source)
  }

  /** Marks the connection as used: a request arrived. */
  touch(socket: PacedSocket): void {
    const source = this.#sockets.get(socket)
    if (source === undefined) return
    this.#sockets.delete(socket)
    this.#sockets.set(socket, source)
  }
}

interface HttpServerOptions {
  readonly reply: RequestListener
  readonly connections: Connections
  /** Whether a new connection may send requests; false: it is closed. Absent: every connection may. */
  readonly admits?: (connection: Socket) => boolean
  /** Default: `httpLimits`. */
  readonly limits?: HttpLimits
}

/** Creates a server that does not listen yet. Loads node:http only now, which shortens the agent's start. */
export async function createHttpServer(options: HttpServerOptions): Promise<Server> {
  const { reply, connections, admits, limits = httpLimits } = options
  const [{ createServer }, { PacedSocket }] = await Promise.all([
    import('node:http'),
    import('./paced-socket.js'),
  ])
  const server = createServer(limits, (request, response) => {
    const { socket } = request
    if (socket instanceof PacedSocket) {
      connections.touch(socket)
      socket.hold(request, response)
    }
    reply(request, response)
  })
  server.timeout = limits.timeout
  // Node's server accepts any Duplex as a connection ("Event: 'connection'" in the documentation of node:http).
  const listeners = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (connection: Socket) => {
    if (admits?.(connection) === false) {
      connection.destroy()
      return
    }
    const socket = new PacedSocket(connection, connections.turns)
    connections.admit(socket)
    for (const listener of listeners) listener.call(server, socket)
  })
  return server
}

/** Rejects with the system's error if the server cannot listen. `ipv6Only` is the option of listen() in node:net. */
export async function listen(
  server: Server,
  place:
    { readonly host: string; readonly port: number; readonly ipv6Only: boolean } | { readonly path: string },
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(place, () => {
      server.removeListener('error', reject)
      resolve()
    })
  })
}
