// Connects to an API server through an HTTP proxy (CONNECT, RFC 9110 section 9.3.6) or a SOCKS 5 proxy (RFC 1928). Loaded only where
// a proxy is configured. docs/adr/0017 lists the gaps of the libraries that this file fills.
import type { Agent, ClientRequest } from 'node:http'
import type { Socket } from 'node:net'
import { checkServerIdentity, type ConnectionOptions } from 'node:tls'
import { HttpsProxyAgent } from 'https-proxy-agent'
import { SocksProxyAgent } from 'socks-proxy-agent'
import type { Clock } from '../../clock.js'
import { answerDeadlineMs } from '../client-options.js'
import { hostOf } from '../url-host.js'

/** Options of the request and of TLS. */
type ConnectOptions = Parameters<SocksProxyAgent['connect']>[1] & ConnectionOptions

// Shorter than the deadline of the request, whose error does not name the proxy.
const proxyDeadlineMs = answerDeadlineMs - 1000

/** An agent for requests through `proxy`, a URL that `parseProxy` accepts. Its errors name the proxy without its login. */
export function proxyAgent(proxy: URL, clock: Clock): Agent {
  return proxy.protocol.startsWith('socks5') ? new SocksAgent(proxy, clock) : new ConnectAgent(proxy, clock)
}

class ConnectAgent extends HttpsProxyAgent<string> {
  readonly #deadline: Deadline

  constructor(url: URL, clock: Clock) {
    super(url)
    this.#deadline = { proxy: url, clock }
  }

  override async connect(request: ClientRequest, options: ConnectOptions): Promise<Socket> {
    const deadline = new AbortController()
    const { ca, rejectUnauthorized } = options
    // The CA of the cluster verifies the proxy, as in client-go. NB: the library reads these options before it waits.
    this.connectOpts = { ...this.connectOpts, ca, rejectUnauthorized, signal: deadline.signal }
    let refusal: string | undefined
    request.once('proxyConnect', ({ statusCode, statusText }: ProxyAnswer) => {
      if (statusCode !== 200) refusal = `answers ${statusCode} ${statusText}`
    })
    const opened = super.connect(request, identified(options))
    const socket = await inTime(opened, this.#deadline, () => deadline.abort())
    if (refusal === undefined) return socket
    // Otherwise the answer of the proxy would count as an answer of the server.
    socket.destroy()
    throw failure(this.proxy, refusal)
  }
}

/** The answer to CONNECT. */
interface ProxyAnswer {
  readonly statusCode: number
  readonly statusText: string
}

class SocksAgent extends SocksProxyAgent {
  readonly #deadline: Deadline

  constructor(url: URL, clock: Clock) {
    // With socks5h:, the proxy looks up the server's name, as in client-go.
    super(url.href.replace(/^socks5:/u, 'socks5h:'))
    // The library does not remove the brackets of an IPv6 address.
    this.proxy.host = hostOf(url)
    this.#deadline = { proxy: url, clock }
  }

  override async connect(request: ClientRequest, options: ConnectOptions): Promise<Socket> {
    const opened = super.connect(request, identified(options))
    // The library closes its connection to a silent proxy after 30 s.
    return await inTime(opened, this.#deadline, () => {
      opened.then(
        (socket) => socket.destroy(),
        () => undefined,
      )
    })
  }
}

/** Verifies the certificate against the server's name or address. For an address, the libraries expect `localhost`. */
function identified(options: ConnectOptions): ConnectOptions {
  const { servername = '', host = '' } = options
  const name = servername === '' ? host : servername
  return { ...options, checkServerIdentity: (_name, certificate) => checkServerIdentity(name, certificate) }
}

interface Deadline {
  readonly proxy: URL
  readonly clock: Clock
}

/** Resolves as `opened` does. Rejects with an error that names the proxy; after the deadline, it calls `giveUp` as well. */
async function inTime(
  opened: Promise<Socket>,
  { proxy, clock }: Deadline,
  giveUp: () => void,
): Promise<Socket> {
  let cancel: (() => void) | undefined
  const late = new Promise<never>((_resolve, reject) => {
    cancel = clock.schedule(proxyDeadlineMs, () => {
      reject(failure(proxy, 'does not answer'))
      giveUp()
    })
  })
  const named = opened.catch((error: unknown) => {
    // Errors of the system have a code, which `explainConnection` reads; errors of the libraries have none.
    if (!(error instanceof Error) || 'code' in error) throw error
    throw failure(proxy, `does not connect: ${error.message}`)
  })
  return await Promise.race([named, late]).finally(() => cancel?.())
}

function failure(proxy: URL, problem: string): Error {
  return new Error(`the proxy ${proxy.host} ${problem}`)
}
