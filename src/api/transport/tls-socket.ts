import { isIP } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import type { Login } from '../client-options.js'
import { hostOf } from '../url-host.js'
import { failureOf, type Outgoing } from './exchange.js'

const httpsPort = 443
/** TCP keep-alive breaks the connection to a dead peer after this delay and ten probes, one per second (libuv). */
export const keepAliveDelayMs = 10_000

/**
 * Opens a connection that offers both versions of HTTP. Resolves after the handshake; `alpnProtocol` of the socket is the server's choice.
 * Rejects when the connection fails, or when `signal` aborts before.
 */
export async function openTls({ url, login }: Outgoing, signal: AbortSignal): Promise<TLSSocket> {
  const host = hostOf(url)
  const { servername = '' } = login.tls
  return await new Promise((resolve, reject) => {
    const socket = connect({
      ...login.tls,
      host,
      port: url.port === '' ? httpsPort : Number(url.port),
      servername: servername === '' && isIP(host) === 0 ? host : servername,
      ALPNProtocols: ['h2', 'http/1.1'],
    })
    const stop = (): void => void socket.destroy(failureOf(signal, socket.connecting))
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop)
    socket.setKeepAlive(true, keepAliveDelayMs)
    // Until the socket has a reader of its own.
    socket.on('error', () => undefined)
    socket.once('secureConnect', () => {
      signal.removeEventListener('abort', stop)
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
    socket.once('close', () =>
      reject(new Error('the server closed the connection before the end of the TLS handshake')),
    )
  })
}

/** Equal for logins that may share a connection. */
export function keyOf({ tls: { ca, cert, key, servername, rejectUnauthorized } }: Login): string {
  return JSON.stringify([ca, cert, key, servername, rejectUnauthorized])
}
