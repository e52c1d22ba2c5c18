// HTTP servers that clients cannot block: the cost and the number of clients have limits.
import type { RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.js'
import type { PacedSocket } from './paced-socket.js'
import { Turns } from './turns.js'

/** Limits for a client; times in milliseconds. */
export interface HttpLimits {
  /** Bytes of a request's headers; the reply to more is 431. */
  readonly maxHeaderSize: number
  /** From the connection, or the request's first byte, to the end of its headers; then the reply is 408. */
  readonly headersTimeout: number
  /** The same, to the end of its body. */
  readonly requestTimeout: number
  /** Period of the checks of the two limits above. */
  readonly connectionsCheckingInterval: number
  /** Idle time between two requests. Longer than the usual period of probers, so that no probe meets the close. */
  readonly keepAliveTimeout: number
  /** Time without progress of a reply, if the client does not read. */
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
 * The connections of one server, or of several servers, and the order in which their requests run. A connection over the limit
 * closes the longest idle one, so that idle connections shut out no client. A connection that waits for its first reply stays: a
 * probe gets its turn among connections with many requests.
 */
export class Connections {
  readonly turns: Turns
  readonly #limit: number
  /** The longest idle connection first. */
  readonly #sockets = new Set<PacedSocket>()

  /** `turnsPerSecond` as in Turns. */
  constructor(limit: number, clock: Pick<Clock, 'now' | 'schedule'>, turnsPerSecond?: () => number) {
    this.#limit = limit
    this.turns = new Turns(clock, turnsPerSecond)
  }

  get size(): number {
    return this.#sockets.size
  }

  /** Adds a new connection, and closes another one if there are too many. */
  admit(socket: PacedSocket): void {
    socket.once('close', () => this.#sockets.delete(socket))
    this.#sockets.add(socket)
    if (this.#sockets.size > this.#limit) this.#close()
  }

  /** The longest idle connection, or the new one if all others wait for their first reply. */
  #close(): void {
    for (const socket of this.#sockets) {
      if (socket.awaitsFirstReply) continue
      this.#sockets.delete(socket)
      socket.destroy()
      return
    }
  }

  /** Marks a connection with a new request. */
  touch(socket: PacedSocket): void {
    if (this.#sockets.delete(socket)) this.#sockets.add(socket)
  }
}

export interface HttpServerOptions {
  readonly reply: RequestListener
  readonly connections: Connections
  /** Default: `httpLimits`. */
  readonly limits?: HttpLimits
}

/** Makes a server that does not listen yet. Loads Node's HTTP and streams only here, which saves start time. */
export async function createHttpServer(options: HttpServerOptions): Promise<Server> {
  const { reply, connections, limits = httpLimits } = options
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
  // Node's server takes any Duplex for a connection ("Event: 'connection'" in the documentation of node:http).
  const listeners = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (connection: Socket) => {
    const socket = new PacedSocket(connection, connections.turns)
    connections.admit(socket)
    for (const listener of listeners) listener.call(server, socket)
  })
  return server
}

/** Rejects with the system's error if the server cannot listen; `ipv6Only` as in listen() of node:net. */
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
