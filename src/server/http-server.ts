// HTTP servers with bounds on the number of clients and on the cost of each, so that clients cannot exhaust them.
import type { RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.js'
import type { PacedSocket } from './paced-socket.js'
import { Turns } from './turns.js'

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
  maxHeaderSize: 8192,
  headersTimeout: 5000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 5000,
  keepAliveTimeout: 75_000,
  timeout: 15_000,
}

/**
 * The connections of one server, or of several servers that share a limit, and the turns of their requests. A connection over the
 * limit closes the one without a request for the longest time, so idle connections do not shut out other clients. A connection that
 * waits for its first reply stays open: a probe, which sends one request, gets its turn among connections that send many.
 */
export class Connections {
  readonly turns: Turns
  readonly #limit: number
  /** Least recently used first. */
  readonly #sockets = new Set<PacedSocket>()

  /** `turnsPerSecond` as in Turns. */
  constructor(limit: number, clock: Pick<Clock, 'now' | 'schedule'>, turnsPerSecond?: () => number) {
    this.#limit = limit
    this.turns = new Turns(clock, turnsPerSecond)
  }

  get size(): number {
    return this.#sockets.size
  }

  /** Adds a new connection. Over the limit, closes one. */
  admit(socket: PacedSocket): void {
    socket.once('close', () => this.#sockets.delete(socket))
    this.#sockets.add(socket)
    if (this.#sockets.size > this.#limit) this.#close()
  }

  /** Closes the least recently used connection. If all others wait for their first reply, that is the new one. */
  #close(): void {
    for (const socket of this.#sockets) {
      if (socket.awaitsFirstReply) continue
      this.#sockets.delete(socket)
      socket.destroy()
      return
    }
  }

  /** Marks the connection as used: a request arrived. */
  touch(socket: PacedSocket): void {
    if (this.#sockets.delete(socket)) this.#sockets.add(socket)
  }
}

export interface HttpServerOptions {
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
  const server = createServer({ ...limits }, (request, response) => {
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
