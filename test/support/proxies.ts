// Proxies on this machine, by HTTP and by SOCKS 5 (RFC 1928), that note where they were asked to connect.
import { createServer as createHttpServer } from 'node:http'
import { connect, createServer, isIPv6, type AddressInfo, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'

export interface Proxy {
  readonly url: string
  /** HOST:PORT, in the order of their coming. */
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

function socksProxy(asked: string[]): Server {
  return createServer((socket) => {
    // Version 5 with no login; then version, command, reserved, type 1, four bytes of address, two of port.
    socket.once('data', () => {
      socket.write(Buffer.from([5, 0]))
      socket.once('data', (request) => {
        const [host, port] = [[...request.subarray(4, 8)].join('.'), request.readUInt16BE(8)]
        asked.push(`${host}:${port}`)
        join(socket, { host, port, greeting: Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]) })
      })
    })
  })
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
