// HTTP and SOCKS 5 (RFC 1928) proxies on this machine. They record the requested destinations.
import { createServer as createHttpServer } from 'node:http'
import { connect, createServer, isIPv6, type AddressInfo, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'

export interface Proxy {
  readonly url: string
  /** Requested destinations, HOST:PORT, in order of arrival. */
  readonly asked: readonly string[]
  close(): void
}

export type ProxyScheme = 'http' | 'socks5'

export async function startProxy(scheme: ProxyScheme, host = '127.0.0.1'): Promise<Proxy> {
  const asked: string[] = []
  const server = scheme === 'http' ? httpProxy(asked) : socksProxy(asked)
  const port = await new Promise<number>((resolve, reject) => {
    server.listen(0, host, () => {
      const address = server.address()
      if (isAddress(address)) resolve(address.port)
      else reject(new Error('the proxy does not listen'))
    })
  })
  const place = isIPv6(host) ? `[${host}]` : host
  return { url: `${scheme}://${place}:${port}`, asked, close: () => void server.close() }
}

function httpProxy(asked: string[]): Server {
  const server = createHttpServer()
  server.on('connect', ({ url = '' }, socket) => {
    asked.push(url)
    const { hostname, port } = new URL(`http://${url}`)
    const host = hostname.replace(/^\[|\]$/gu, '')
    join(socket, { host, port: Number(port), greeting: 'HTTP/1.1 200 OK\r\n\r\n' })
  })
  return server
}

/** A client that offers user and password must log in as `me` with `50%off`. */
function socksProxy(asked: string[]): Server {
  return createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', (greeting) => {
      const wantsLogin = greeting.subarray(2).includes(2)
      socket.write(Buffer.from([5, wantsLogin ? 2 : 0]))
      if (!wantsLogin) return socket.once('data', (request) => joinAsAsked(socket, request, asked))
      return socket.once('data', (login) => {
        const isRight = login.equals(Buffer.from('\u0001\u0002me\u000650%off'))
        socket.write(Buffer.from([1, isRight ? 0 : 1]))
        socket.once('data', (request) => joinAsAsked(socket, request, asked))
      })
    })
  })
}

/** Connects to the requested destination: version, command, reserved, type, address, two bytes of port. A name means this machine. */
function joinAsAsked(socket: Socket, request: Buffer, asked: string[]): void {
  const bytes = request.subarray(4, -2)
  const port = request.readUInt16BE(request.length - 2)
  const isName = request[3] === 3
  const address = request[3] === 4 ? ipv6Text(bytes) : bytes.join('.')
  const host = isName ? bytes.subarray(1).toString() : address
  asked.push(`${isIPv6(host) ? `[${host}]` : host}:${port}`)
  const greeting = Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
  join(socket, { host: isName ? '127.0.0.1' : address, port, greeting })
}

function ipv6Text(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(2 * i).toString(16))
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)
}

function join(
  near: Duplex,
  {
    host,
    port,
    greeting,
  }: { readonly host: string; readonly port: number; readonly greeting: string | Buffer },
): void {
  const far: Socket = connect(port, host, () => {
    near.write(greeting)
    far.pipe(near).pipe(far)
  })
  // Either side may break the connection at any time.
  for (const end of [far, near]) end.on('error', () => undefined)
}

function isAddress(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null
}
