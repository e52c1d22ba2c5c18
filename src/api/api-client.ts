import { STATUS_CODES } from 'node:http'
import type { Clock } from '../clock.js'
import { AnswerBody, type AnswerBodyOptions } from './answer-body.js'
import { ApiError } from './api-error.js'
import { answerDeadlineMs, type ClientOptions, type Login } from './client-options.js'
import { connectionError, explainConnection } from './connection-problem.js'
import { jsonFormat } from './formats/json-format.js'
import { protobufFormat } from './formats/protobuf-format.js'
import { statusOf, type Status, type WireFormat } from './formats/wire-format.js'
import { urlLogin } from './url-login.js'
import { overdue, type Incoming, type Peer, type Transport } from './transport/exchange.js'
import { Http1Transport } from './transport/http1-transport.js'
import { Http2Transport } from './transport/http2-transport.js'

export type { Peer } from './transport/exchange.js'

const largestReply = 64 * 1024
const longestRetryAfterMs = 60_000
const longestMessage = 500

const protobufType = 'application/vnd.kubernetes.protobuf'

export interface ApiRequest {
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly isWatch: boolean
  /** The time after which the query asks the server to end the answer. Absent: none. */
  readonly endsAfterMs?: number
  /** From 0 to below 1: spreads the times after which silence ends an answer or a connection, so that many nodes do not ask again together. */
  readonly spread: number
}

/** A request that creates or changes one object. */
export interface ApiWrite {
  readonly method: 'POST' | 'PATCH'
  readonly path: string
  readonly contentType: string
  readonly body: string
}

interface HttpRequest {
  readonly method: 'GET' | ApiWrite['method']
  readonly path: string
  readonly query?: ApiRequest['query']
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly spread: number
}

/** An answer with status 200. Its body is still to be read. */
export interface ApiAnswer {
  readonly format: WireFormat
  /** Can be iterated once. Leaving the loop closes the connection. Throws ApiError: after a long silence, one with the code `silence`. */
  readonly chunks: AsyncIterable<Buffer>
  /**
   * From now on the server sends only what changes. Where PINGs show that the connection lives, silence ends the answer only when the
   * server should have ended it 30 s ago.
   */
  readonly expectSilence: () => void
  /** The error that a Status within this answer stands for. */
  readonly errorOf: (status: Status) => ApiError
}

/** Sends requests to one API server. Every failure is an ApiError, except a bug of this program. */
export class ApiClient {
  readonly #options: ClientOptions
  readonly #clock: Clock
  readonly #signal: AbortSignal
  readonly #http1: Http1Transport
  /** For connections without a proxy; undefined: HTTP/1.1 is used. */
  readonly #http2: Http2Transport | undefined
  #peer: Peer | undefined

  /** When `signal` aborts, all requests fail at once, and the sockets are closed. */
  constructor(options: ClientOptions, clock: Clock, signal: AbortSignal) {
    const { server, mayUseHttp2 = true, alive = () => undefined } = options
    this.#options = options
    this.#clock = clock
    this.#signal = signal
    this.#http1 = new Http1Transport(server.protocol, signal)
    if (server.protocol === 'https:' && mayUseHttp2)
      this.#http2 = new Http2Transport({ clock, http1: this.#http1, end: signal, alive })
  }

  /** The server that answered last; undefined: none has answered yet. */
  get peer(): Peer | undefined {
    return this.#peer
  }

  /** Resolves with the headers of an answer with status 200. Rejects with ApiError. */
  async get(request: ApiRequest): Promise<ApiAnswer> {
    const { path, query, isWatch, spread, endsAfterMs } = request
    const operation = `GET ${path}`
    // A server flushes a watch's gzip after each few events: that costs both sides more CPU than it saves.
    const headers = {
      accept: this.#accept(isWatch),
      'accept-encoding': isWatch ? 'identity' : 'gzip',
    }
    const incoming = await this.#ask({ method: 'GET', path, query, headers, spread }, operation)
    const type = incoming.headers['content-type'] ?? ''
    const body = this.#bodyOf(incoming, operation, { spread, endsAfterMs })
    if (incoming.status !== 200) throw await refusal(incoming, body, operation)
    const format = formatOf(type)
    if (format !== undefined) {
      return {
        format,
        chunks: body,
        expectSilence: () => body.expectSilence(),
        errorOf: (status) => statusError(operation, status),
      }
    }
    incoming.body.destroy()
    const problem = `the answer is ${type === '' ? 'of no type' : type}, not of the Kubernetes API`
    throw new ApiError({ code: 'garbage', operation, problem })
  }

  /** Resolves when the server has accepted the object. Rejects with ApiError. */
  async write({ method, path, contentType, body }: ApiWrite): Promise<void> {
    const operation = `${method} ${path}`
    const headers = {
      accept: 'application/json',
      'accept-encoding': 'gzip',
      'content-type': contentType,
    }
    const incoming = await this.#ask({ method, path, headers, body, spread: 0 }, operation)
    const reply = this.#bodyOf(incoming, operation, { spread: 0, endsAfterMs: undefined })
    const { status } = incoming
    if (status < 200 || status > 299) throw await refusal(incoming, reply, operation)
    // The body is not used. Reading it to its end frees the connection for the next request.
    await readReply(reply, operation)
  }

  async #ask(asked: HttpRequest, operation: string): Promise<Incoming> {
    const { server, observe } = this.#options
    const startMs = this.#clock.now()
    let code = '<error>'
    try {
      const incoming = await this.#send(asked, operation)
      code = String(incoming.status)
      return incoming
    } finally {
      const seconds = (this.#clock.now() - startMs) / 1000
      observe?.({ host: server.host, method: asked.method, code, seconds })
    }
  }

  async #send(
    { method, path, query, body, spread, ...asked }: HttpRequest,
    operation: string,
  ): Promise<Incoming> {
    const { server } = this.#options
    const url = new URL(server)
    url.pathname = `${server.pathname.replace(/\/$/u, '')}${path}`
    url.search = new URLSearchParams(query).toString()
    const login = await this.#login(operation)
    // As in Go, any other credentials have precedence over those of the URL.
    const headers = {
      ...asked.headers,
      'user-agent': 'viaduct',
      ...urlLogin(server),
      ...login.headers,
    }
    url.username = ''
    url.password = ''
    const wait = new AbortController()
    const ending = new Error('the agent stops')
    const stop = (): void => wait.abort(ending)
    const cancel = this.#clock.schedule(answerDeadlineMs, () => wait.abort(overdue()))
    this.#signal.addEventListener('abort', stop)
    try {
      // It may have aborted during the login.
      if (this.#signal.aborted) throw ending
      const transport = this.#transportFor(login)
      const incoming = await transport.send({ method, url, headers, body, login, spread }, wait.signal)
      this.#peer = incoming.peer ?? this.#peer
      if (incoming.status === 401) login.refused?.()
      return incoming
    } catch (error) {
      throw connectionError(operation, error, login)
    } finally {
      cancel()
      this.#signal.removeEventListener('abort', stop)
    }
  }

  #transportFor({ agent }: Login): Transport {
    return agent === undefined ? (this.#http2 ?? this.#http1) : this.#http1
  }

  #bodyOf(
    incoming: Incoming,
    operation: string,
    times: Pick<AnswerBodyOptions, 'spread' | 'endsAfterMs'>,
  ): AnswerBody {
    return new AnswerBody(incoming, {
      ...times,
      operation,
      clock: this.#clock,
      silent: () => this.#http1.closeIdle(),
    })
  }

  #accept(isWatch: boolean): string {
    const { encodings = ['protobuf', 'json'] } = this.#options
    const protobuf = isWatch ? `${protobufType};stream=watch` : protobufType
    return encodings.map((encoding) => (encoding === 'json' ? 'application/json' : protobuf)).join(', ')
  }

  async #login(operation: string): Promise<Login> {
    try {
      return await this.#options.login(this.#signal)
    } catch (error) {
      throw new ApiError({ code: 'credentials', operation, problem: explainConnection(error) })
    }
  }
}

function formatOf(contentType: string): WireFormat | undefined {
  if (contentType.startsWith(protobufType)) return protobufFormat
  return contentType.startsWith('application/json') ? jsonFormat : undefined
}

/** The whole body of a short answer. Throws ApiError when it is too large, and what the iteration throws. */
async function readReply(chunks: AsyncIterable<Buffer>, operation: string): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const chunk of chunks) {
    size += chunk.length
    if (size > largestReply) {
      throw new ApiError({
        code: 'garbage',
        operation,
        problem: `the answer has more than ${largestReply} bytes`,
      })
    }
    parts.push(chunk)
  }
  return Buffer.concat(parts, size)
}

/** The time in the header Retry-After; 0: there is none. */
function secondsOfHeader({ 'retry-after': text = '', date = '' }: Incoming['headers']): number {
  const seconds = Number(text)
  // RFC 9110 section 10.2.3 permits a date too, which load balancers send. Both dates are of the server's clock.
  const dateSeconds = (Date.parse(text) - Date.parse(date)) / 1000
  return [seconds, dateSeconds].find((value) => value > 0) ?? 0
}

/** The error for an answer with another status than 200. */
async function refusal(
  { status: code, headers }: Incoming,
  chunks: AsyncIterable<Buffer>,
  operation: string,
): Promise<ApiError> {
  const header = secondsOfHeader(headers)
  let status: Status = statusOf(undefined)
  try {
    const body = await readReply(chunks, operation)
    const isProtobuf = headers['content-type']?.startsWith(protobufType) === true
    status = (isProtobuf ? protobufFormat : jsonFormat).readStatus(body)
  } catch {
    // The page of a proxy, or no body: the status code is enough.
  }
  const fromHeader = { retryAfterSeconds: header > 0 ? header : status.retryAfterSeconds }
  return statusError(operation, { ...status, ...fromHeader, code })
}

// The requested version is newer than the server's (k8s.io/apimachinery CauseTypeResourceVersionTooLarge, with status 504).
const tooLarge = 'ResourceVersionTooLarge'

/** The error for a Status of the server. */
function statusError(operation: string, status: Status): ApiError {
  const { code, reason, message, retryAfterSeconds, causes } = status
  const name = reason === '' ? (STATUS_CODES[code] ?? '') : reason
  const detail = message === '' ? '' : `: ${message.slice(0, longestMessage)}`
  return new ApiError({
    code: causes.includes(tooLarge) ? 'history' : 'status',
    operation,
    problem: `${code} ${name}${detail}`,
    status: code,
    retryAfterMs: Math.min(Math.max(retryAfterSeconds, 0) * 1000, longestRetryAfterMs),
  })
}
