// The way to an API server by way of an HTTP proxy (CONNECT, RFC 9110 section 9.3.6). Not that of the Kubernetes client, which
// knows no IPv6 address: neither of the proxy nor of the server.
import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps, type RequestOptions } from 'node:https'
import { isIP, isIPv6 } from 'node:net'
import type { Duplex } from 'node:stream'
import { answerDeadlineMs } from './client-options.js'

type Done = (error: Error | null, socket?: Duplex) => void

/** Opens connections to `server` through `proxy`; both are of http: or https:. */
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
function openTunnel(proxy: URL, { host, port, ca, rejectUnauthorized }: RequestOptions, done: Done): void {
  const target = `${isIPv6(host ?? '') ? `[${host}]` : host}:${port}`
  const proxyHost = proxy.hostname.replace(/^\[|\]$/gu, '')
  const send = proxy.protocol === 'https:' ? requestHttps : requestHttp
  const request = send({
    method: 'CONNECT',
    host: proxyHost,
    port: proxy.port,
    path: target,
    headers: { host: target, ...loginOf(proxy) },
    agent: false,
    // Held against the CA of the cluster, as client-go does it; NB: Node would take the name from the header.
    ca,
    rejectUnauthorized,
    servername: isIP(proxyHost) === 0 ? proxyHost : '',
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

function loginOf({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === '' && password === '') return {}
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(login).toString('base64')}` }
}
