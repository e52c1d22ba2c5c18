// HTTP servers that clients cannot hold up: what one may cost is bounded, and so is how many there are.
import type { RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.js'
import type { PacedSocket } from './paced-socket.js'
import { Turns } from './turns.js'

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
 * The connections of one server, or of several that share them, and the turns in which their requests are taken. A connection
 * over the limit closes the one that has asked nothing for longest, so idle connections shut out no other client. One that waits
 * for its first reply stays: a probe, which asks once, gets its turn among connections that ask without end.
 */
export class Connections {
  readonly turns: Turns
  readonly #limit: number
  /** That has asked nothing for longest first. */
  readonly #sockets = new Set<PacedSocket>()

  /** `turnsPerSecond` as in Turns. */
  constructor(limit: number, clock: Pick<Clock, 'now' | 'schedule'>, turnsPerSecond?: () => number) {
    this.#limit = limit
    this.turns = new Turns(clock, turnsPerSecond)
  }

  get size(): number {
    return this.#sockets.size
  }

  /** Counts a new connection, which may end another one. */
  admit(socket: PacedSocket): void {
    socket.once('close', () => this.#sockets.delete(socket))
    this.#sockets.add(socket)
    if (this.#sockets.size > this.#limit) this.#close()
  }

  /** The newcomer is the last, and the one where all others wait for their first reply. */
  #close(): void {
    for (const socket of this.#sockets) {
      if (socket.awaitsFirstReply) continue
      this.#sockets.delete(socket)
      socket.destroy()
      return
    }
  }

  /** It asks something. */
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

/** A server that does not listen yet. Loads Node's HTTP and streams, which a start can do without. */
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
