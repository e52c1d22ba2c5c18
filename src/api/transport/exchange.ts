// One request and its answer, over either version of HTTP.
import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import { answerDeadlineMs, type Login } from '../client-options.js'

/** The other end of a connection. */
export interface Peer {
  /** Canonical text of an IP address. */
  readonly address: string
  readonly port: number
}

/** A request as it is sent. */
export interface Outgoing {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly login: Login
  /** From 0 to below 1: spreads the times of PINGs on a connection that this request opens. */
  readonly spread: number
}

/** The headers of an answer of any status. The body is still to be read. */
export interface Incoming {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Destroying it ends the answer before its end. */
  readonly body: Readable
  /** undefined: the connection is closed already. */
  readonly peer: Peer | undefined
  /**
   * How a dead connection is noticed. `ping`: by HTTP/2, up to the server. `direct`: by TCP, up to the server. `relayed`: by TCP, up to a
   * proxy, or to this machine, which may have a load balancer; the server may be further away.
   */
  readonly liveness: 'ping' | 'direct' | 'relayed'
  /** Only with `ping`: calls back when no PING watches over the connection any more, at once if none does. */
  readonly onPingsEnd?: (call: () => void) => void
}

/** Sends requests over connections of its own. */
export interface Transport {
  /** Rejects with an Error when there is no answer. When `signal` aborts before, it rejects with `failureOf` the signal. */
  send(outgoing: Outgoing, signal: AbortSignal): Promise<Incoming>
}

/** The peer said nothing for too long. */
export class Silence extends Error {
  override readonly name = 'Silence'
}

/** The server has not begun to work on the request (RFC 9113 section 8.7): it may be sent again at once. */
export class Unprocessed extends Error {
  override readonly name = 'Unprocessed'
}

const inTime = `within ${answerDeadlineMs / 1000} s`

/** The reason of a signal that aborts when an answer has not begun in time. */
export function overdue(): Silence {
  return new Silence(`no answer ${inTime}`)
}

/** The error of a request that an aborted signal ended. `isConnecting`: TCP had no connection yet, so the attempt cost the server nothing. */
export function failureOf(signal: AbortSignal, isConnecting: boolean): Error {
  const reason: unknown = signal.reason
  if (reason instanceof Silence && isConnecting) return new Error(`no connection ${inTime}`)
  return reason instanceof Error ? reason : new Error(String(reason))
}
