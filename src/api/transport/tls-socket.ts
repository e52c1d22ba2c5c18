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
  return await new Promise((resolve, reject) => {
    const socket = connect({
      ...login.tls,
      host,
      port: url.port === '' ? httpsPort : Number(url.port),
      servername: serverNameOf(login.tls, host),
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

/** The name for which the server's certificate must hold; empty: its address. As in node:https. */
export function serverNameOf({ servername = '' }: Login['tls'], host: string): string {
  return servername === '' && isIP(host) === 0 ? host : servername
}

/** Equal for TLS options that may share a connection to one server. */
export function keyOf(tls: Login['tls'], host: string): string {
  const { ca, cert, key, rejectUnauthorized } = tls
  return JSON.stringify([ca, cert, key, serverNameOf(tls, host), rejectUnauthorized])
}
