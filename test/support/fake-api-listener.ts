// The listening part of the fake API server: HTTP/1.1, and over TLS HTTP/2 as well, as the real server.
import { createServer, type RequestListener } from 'node:http'
import { createSecureServer, type ServerHttp2Session } from 'node:http2'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { Server as TlsServer, type TlsOptions } from 'node:tls'
import type { Certificate } from './certificates.js'

export interface ListenerOptions {
  readonly certificate?: Certificate
  /** Certificates of clients must be signed by one of these. */
  readonly clientAuthorities?: readonly string[]
  /** With a certificate, the server offers HTTP/2, unless this is true. */
  readonly isHttp1Only?: boolean
  /** HTTP/2: the requests that one connection may have at the same time. Default: as the real server. */
  readonly maxConcurrentStreams?: number
}

export class FakeApiListener {
  readonly #server
  readonly #sockets = new Set<Socket>()
  readonly #sessions = new Set<ServerHttp2Session>()

  /** `changed`: called after the end of each connection of HTTP/2. */
  constructor(options: ListenerOptions, serve: RequestListener, changed: () => void) {
    this.#server = openServer(options, serve)
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    this.#server.on('session', (session: ServerHttp2Session) => {
      this.#sessions.add(session)
      session.on('error', () => undefined)
      session.on('close', () => {
        this.#sessions.delete(session)
        changed()
      })
    })
  }

  async listen(port: number, address: string): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(port, address, resolve))
  }

  /** Stops listening and closes every connection. */
  async close(): Promise<void> {
    this.dropConnections()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }

  get port(): number {
    const address = this.#server.address()
    if (!isAddress(address)) throw new Error('the server does not listen')
    return address.port
  }

  /** Ports of the clients' connections. */
  get openConnections(): readonly number[] {
    return Array.from(this.#sockets, ({ remotePort = 0 }) => remotePort)
  }

  /** Connections of HTTP/2. */
  get openSessions(): number {
    return this.#sessions.size
  }

  /** Uses this certificate for new connections. */
  useCertificate(options: ListenerOptions, certificate: Certificate): void {
    if (this.#server instanceof TlsServer) this.#server.setSecureContext(tlsOptions(options, certificate))
  }

  dropConnections(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** HTTP/2: the open connections take no further request; those that are under way go on. */
  goAway(): void {
    for (const session of this.#sessions) session.goaway()
  }
}

function openServer(
  options: ListenerOptions,
  serve: RequestListener,
): ReturnType<typeof createServer> | TlsServer {
  const { certificate, isHttp1Only = false, maxConcurrentStreams = 100 } = options
  if (certificate === undefined) return createServer(serve)
  const tls = tlsOptions(options, certificate)
  if (isHttp1Only) return createTlsServer(tls, serve)
  // Its requests and responses work like those of HTTP/1.1.
  return createSecureServer({ ...tls, allowHTTP1: true, settings: { maxConcurrentStreams } }).on(
    'request',
    serve,
  )
}

/** As the real server: requests a client certificate, and accepts connections with an unknown one. */
function tlsOptions({ clientAuthorities }: ListenerOptions, certificate: Certificate): TlsOptions {
  if (clientAuthorities === undefined) return certificate
  return { ...certificate, ca: [...clientAuthorities], requestCert: true, rejectUnauthorized: false }
}

function isAddress(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null
}
