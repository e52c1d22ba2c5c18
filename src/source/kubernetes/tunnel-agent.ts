// The way to an API server by way of a proxy: of HTTP (CONNECT, RFC 9110 section 9.3.6), or of SOCKS. Not that of the Kubernetes
// client: it takes no IPv6 address, and through SOCKS it expects a certificate for `localhost` where the server is an address.
import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps, type RequestOptions } from 'node:https'
import { isIP, isIPv6 } from 'node:net'
import type { Duplex } from 'node:stream'
import { answerDeadlineMs } from './client-options.js'
import { proxyHost, proxyLogin } from './proxy-url.js'
import { openSocksTunnel } from './socks-tunnel.js'

type Done = (error: Error | null, socket?: Duplex) => void

/** Opens connections to `server`, of http: or https:, through `proxy`, which `parseProxy` takes. */
export function tunnelAgent(proxy: URL, server: URL): HttpAgent {
  return server.protocol === 'https:' ? new SecureTunnelAgent(proxy) : new TunnelAgent(proxy)
}

class TunnelAgent extends HttpAgent {
  readonly #proxy: URL

  constructor(proxy: URL) {
    super()
    this.#proxy = proxy
  }

  override createConnection(options: RequestOptions, done: Done): undefined {
    openTunnel(this.#proxy, options, done)
  }
}

class SecureTunnelAgent extends HttpsAgent {
  readonly #proxy: URL

  constructor(proxy: URL) {
    super()
    this.#proxy = proxy
  }

  override createConnection(options: RequestOptions, done: Done): undefined {
    openTunnel(this.#proxy, options, (error, socket) => {
      if (error !== null || socket === undefined) return done(error)
      const secured = { ...options, socket }
      done(null, super.createConnection(secured) ?? undefined)
    })
  }
}

/** `done` is called once. */
function openTunnel(proxy: URL, options: RequestOptions, done: Done): void {
  if (!proxy.protocol.startsWith('socks5')) return openHttpTunnel(proxy, options, done)
  openSocksTunnel(proxy, { host: options.host ?? '', port: Number(options.port) }).then(
    (socket) => done(null, socket),
    (error: unknown) => done(error instanceof Error ? error : new Error(String(error))),
  )
}

function openHttpTunnel(
  proxy: URL,
  { host, port, ca, rejectUnauthorized }: RequestOptions,
  done: Done,
): void {
  const target = `${isIPv6(host ?? '') ? `[${host}]` : host}:${port}`
  const name = proxyHost(proxy)
  const send = proxy.protocol === 'https:' ? requestHttps : requestHttp
  const request = send({
    method: 'CONNECT',
    host: name,
    port: proxy.port,
    path: target,
    headers: { host: target, ...authorizationFor(proxy) },
    agent: false,
    // Held against the CA of the cluster, as client-go does it; NB: Node would take the name from the header.
    ca,
    rejectUnauthorized,
    servername: isIP(name) === 0 ? name : '',
    // A proxy that never answers would keep its socket; before the request is given up, whose sentence does not name it.
    timeout: answerDeadlineMs - 1000,
  })
  request.on('connect', (response, socket) => {
    socket.setTimeout(0)
    const { statusCode = 0 } = response
    if (statusCode >= 200 && statusCode < 300) return done(null, socket)
    socket.destroy()
    done(new Error(`the proxy ${proxy.host} answers ${statusCode} ${response.statusMessage}`))
  })
  request.on('timeout', () => request.destroy(new Error(`the proxy ${proxy.host} does not answer`)))
  request.on('error', done)
  request.end()
}

function authorizationFor(proxy: URL): Readonly<Record<string, string>> {
  const login = proxyLogin(proxy)
  if (login === undefined) return {}
  const credentials = Buffer.from(`${login.username}:${login.password}`).toString('base64')
  return { 'proxy-authorization': `Basic ${credentials}` }
}
