import { Agent as HttpAgent, request as requestHttp, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { failureOf, type Incoming, type Outgoing, type Peer, type Transport } from './exchange.js'
import { keepAliveDelayMs, keyOf } from './tls-socket.js'

/** HTTP/1.1, with one connection for each request that is under way. Through a proxy if the login has an agent. */
export class Http1Transport implements Transport {
  readonly #agent: HttpAgent | SecureAgent
  readonly #end: AbortSignal

  /** `protocol`: of the server. When `end` aborts, all requests fail at once, and the sockets are closed. */
  constructor(protocol: string, end: AbortSignal) {
    this.#end = end
    // NB: not Node's global agent, which ends requests after five seconds.
    this.#agent =
      protocol === 'https:' ? new SecureAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true })
    end.addEventListener('abort', () => this.#agent.destroy(), { once: true })
  }

  /** Whether there are connections, used or not, except those through a proxy. */
  get isOpen(): boolean {
    const { sockets, freeSockets } = this.#agent
    return [sockets, freeSockets].some((byName) => Object.keys(byName).length > 0) || this.#hasSpare
  }

  get #hasSpare(): boolean {
    return this.#agent instanceof SecureAgent && this.#agent.hasSpare
  }

  /** Takes over a connection whose other end speaks only HTTP/1.1, for the next request that would open one. `key`: `keyOf` its TLS options. */
  offer(socket: TLSSocket, key: string): void {
    if (this.#agent instanceof SecureAgent) this.#agent.offer(socket, key)
  }

  /** Closes the connections that no request uses. They may lead to a dead server: the next request opens one. */
  closeIdle(): void {
    for (const sockets of Object.values(this.#agent.freeSockets))
      for (const socket of sockets ?? []) socket.destroy()
  }

  async send({ method, url, headers, body, login }: Outgoing, signal: AbortSignal): Promise<Incoming> {
    if (signal.aborted) throw failureOf(signal, false)
    // NB: the agent shares a connection only between requests with equal TLS options.
    const options = { method, agent: login.agent ?? this.#agent, ...login.tls, headers, signal: this.#end }
    const send = url.protocol === 'https:' ? requestHttps : requestHttp
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = send(url, options)
      // NB: a request without a socket, as with a silent proxy, never has an error of its own.
      const give = (error: Error): void => {
        reject(error)
        request.destroy(error)
      }
      signal.addEventListener('abort', () => {
        this.closeIdle()
        give(failureOf(signal, request.socket?.connecting === true))
      })
      request.on('socket', (socket) => socket.setKeepAlive(true, keepAliveDelayMs))
      request.on('response', resolve)
      // NB: stays in place for errors after the headers, which the reader of the body gets as well.
      request.on('error', give)
      request.end(body)
    })
    const { socket } = response
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      body: response,
      peer: peerOf(socket),
      liveness: login.agent !== undefined || isOnThisMachine(socket) ? 'relayed' : 'direct',
    }
  }
}

/** undefined: the socket is closed. */
export function peerOf({ remoteAddress: address, remotePort: port }: Socket): Peer | undefined {
  return address === undefined || port === undefined ? undefined : { address, port }
}

function isOnThisMachine({ localAddress, remoteAddress = '' }: Socket): boolean {
  return remoteAddress === localAddress || remoteAddress.startsWith('127.')
}

/** Opens TLS connections, but uses one that is open already first. */
class SecureAgent extends HttpsAgent {
  #spare: TLSSocket | undefined
  #spareKey = ''

  get hasSpare(): boolean {
    return this.#spare !== undefined
  }

  offer(socket: TLSSocket, key: string): void {
    this.#forget()
    this.#spare = socket
    this.#spareKey = key
    socket.once('close', () => {
      if (this.#spare === socket) this.#spare = undefined
    })
  }

  override createConnection(
    ...[options, done]: Parameters<HttpsAgent['createConnection']>
  ): ReturnType<HttpsAgent['createConnection']> {
    // NB: certificates may have been renewed since.
    if (this.#spareKey !== keyOf(options, options.host ?? '')) this.#forget()
    const spare = this.#spare
    this.#spare = undefined
    return spare ?? super.createConnection(options, done)
  }

  override destroy(): void {
    this.#forget()
    super.destroy()
  }

  #forget(): void {
    this.#spare?.destroy()
    this.#spare = undefined
  }
}
