import { Agent as HttpAgent, request as requestHttp, STATUS_CODES, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import type { Clock } from '../clock.js'
import { ApiError } from './api-error.js'
import { answerDeadlineMs, type ClientOptions, type Login } from './client-options.js'
import { explainConnection } from './connection-problem.js'
import { IdleWatchdog } from './idle-watchdog.js'
import { jsonFormat } from './formats/json-format.js'
import { protobufFormat } from './formats/protobuf-format.js'
import { statusOf, type Status, type WireFormat } from './formats/wire-format.js'

// TCP keep-alive breaks the connection to a dead peer after this delay and ten probes, one per second (libuv).
const keepAliveDelayMs = 10_000
/**
 * An answer without a byte for this time ends. TCP keep-alive detects a dead server much earlier, and many servers send a bookmark every
 * minute.
 */
const directSilence = { least: 90_000, spread: 30_000 }
/** The same where TCP keep-alive asks only a proxy, or a load balancer on this machine. With the next request, less than 45 s. */
const relayedSilence = { least: 32_000, spread: 6000 }

const largestReply = 64 * 1024
const longestRetryAfterMs = 60_000
const longestMessage = 500

const protobufType = 'application/vnd.kubernetes.protobuf'

export interface ApiRequest {
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly isWatch: boolean
  /** From 0 to below 1: spreads the time after which a silent answer ends, so that many nodes do not ask again together. */
  readonly spread: number
}

/** A request that creates or changes one object. */
export interface ApiWrite {
  readonly method: 'POST' | 'PATCH'
  readonly path: string
  readonly contentType: string
  readonly body: string
}

/** The other end of a connection. */
export interface Peer {
  /** Canonical text of an IP address. */
  readonly address: string
  readonly port: number
}

interface HttpRequest {
  readonly method: 'GET' | ApiWrite['method']
  readonly path: string
  readonly query?: ApiRequest['query']
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** The headers of an answer of any status. */
interface Answered {
  readonly response: IncomingMessage
  /** TCP leads to a proxy, or to this machine, which may have a load balancer: the server may be further away. */
  readonly isRelayed: boolean
}

/** An answer with status 200. Its body is still to be read. */
export interface ApiAnswer {
  readonly format: WireFormat
  /** Can be iterated once. Leaving the loop closes the connection. Throws ApiError: after a long silence, one with the code `silence`. */
  readonly chunks: AsyncIterable<Buffer>
  /** The error that a Status within this answer stands for. */
  readonly errorOf: (status: Status) => ApiError
}

/** Sends requests to one API server. Every failure is an ApiError, except a bug of this program. */
export class ApiClient {
  readonly #options: ClientOptions
  readonly #clock: Clock
  readonly #signal: AbortSignal
  readonly #agent: HttpAgent | HttpsAgent
  #peer: Peer | undefined

  /** When `signal` aborts, all requests fail at once, and the sockets are closed. */
  constructor(options: ClientOptions, clock: Clock, signal: AbortSignal) {
    this.#options = options
    this.#clock = clock
    this.#signal = signal
    // NB: not Node's global agent, which ends requests after five seconds.
    this.#agent =
      options.server.protocol === 'https:'
        ? new HttpsAgent({ keepAlive: true })
        : new HttpAgent({ keepAlive: true })
    signal.addEventListener('abort', () => this.#agent.destroy(), { once: true })
  }

  /** The server that answered last; undefined: none has answered yet. */
  get peer(): Peer | undefined {
    return this.#peer
  }

  /** Resolves with the headers of an answer with status 200. Rejects with ApiError. */
  async get(request: ApiRequest): Promise<ApiAnswer> {
    const { path, query, isWatch, spread } = request
    const operation = `GET ${path}`
    const headers = { accept: this.#accept(isWatch) }
    const answered = await this.#ask({ method: 'GET', path, query, headers }, operation)
    const { response } = answered
    const type = response.headers['content-type'] ?? ''
    const chunks = this.#chunksOf(answered, operation, spread)
    if (response.statusCode !== 200) throw await refusal(response, chunks, operation)
    const format = formatOf(type)
    if (format !== undefined) {
      const errorOf = (status: Status): ApiError => statusError(operation, status)
      return { format, chunks, errorOf }
    }
    response.destroy()
    const problem = `the answer is ${type === '' ? 'of no type' : type}, not of the Kubernetes API`
    throw new ApiError({ code: 'garbage', operation, problem })
  }

  /** Resolves when the server has accepted the object. Rejects with ApiError. */
  async write({ method, path, contentType, body }: ApiWrite): Promise<void> {
    const operation = `${method} ${path}`
    const headers = { accept: 'application/json', 'content-type': contentType }
    const answered = await this.#ask({ method, path, headers, body }, operation)
    const { response } = answered
    const chunks = this.#chunksOf(answered, operation, 0)
    const { statusCode = 0 } = response
    if (statusCode < 200 || statusCode > 299) throw await refusal(response, chunks, operation)
    // The body is not used. Reading it to its end frees the connection for the next request.
    await readReply(chunks, operation)
  }

  async #ask(asked: HttpRequest, operation: string): Promise<Answered> {
    const { server, observe } = this.#options
    const startMs = this.#clock.now()
    let code = '<error>'
    try {
      const answered = await this.#send(asked, operation)
      code = String(answered.response.statusCode)
      return answered
    } finally {
      const seconds = (this.#clock.now() - startMs) / 1000
      observe?.({ host: server.host, method: asked.method, code, seconds })
    }
  }

  async #send(asked: HttpRequest, operation: string): Promise<Answered> {
    const { server } = this.#options
    const { method, path, query, body } = asked
    const url = new URL(server)
    url.pathname = `${server.pathname.replace(/\/$/u, '')}${path}`
    url.search = new URLSearchParams(query).toString()
    const login = await this.#login(operation)
    const headers = {
      ...asked.headers,
      'accept-encoding': 'gzip',
      'user-agent': 'viaduct',
      ...login.headers,
    }
    // NB: the agent shares a connection only between requests with equal TLS options.
    const options = { method, agent: login.agent ?? this.#agent, ...login.tls, headers, signal: this.#signal }
    const send = url.protocol === 'https:' ? requestHttps : requestHttp
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = send(url, options)
      const settle = (): void => {
        cancel()
        this.#signal.removeEventListener('abort', stop)
      }
      // NB: a request without a socket, as with a silent proxy, never has an error of its own.
      const give = (error: Error): void => {
        settle()
        reject(connectionError(operation, error, login))
        request.destroy(error)
      }
      const stop = (): void => give(new Error('the agent stops'))
      const cancel = this.#clock.schedule(answerDeadlineMs, () => {
        const within = `within ${answerDeadlineMs / 1000} s`
        // NB: counts as a refused connection, not as a time-out: the attempt costs the server nothing.
        this.#closeIdleSockets()
        if (request.socket?.connecting === true) give(new Error(`no connection ${within}`))
        else give(silence(operation, `no answer ${within}`))
      })
      this.#signal.addEventListener('abort', stop)
      request.on('socket', (socket) => socket.setKeepAlive(true, keepAliveDelayMs))
      request.on('response', (answer) => {
        settle()
        const { remoteAddress: address, remotePort: port } = answer.socket
        if (address !== undefined && port !== undefined) this.#peer = { address, port }
        resolve(answer)
      })
      // NB: stays in place for errors after the headers, which the reader of the body gets as well.
      request.on('error', give)
      request.end(body)
    }).catch((error: unknown) => {
      // Such as a token that is not valid in a header: Node throws at once.
      throw connectionError(operation, error)
    })
    if (response.statusCode === 401) login.refused?.()
    return { response, isRelayed: login.agent !== undefined || isOnThisMachine(response.socket) }
  }

  /** Sockets that no request uses may lead to the same dead server: the next request opens a connection. */
  #closeIdleSockets(): void {
    for (const sockets of Object.values(this.#agent.freeSockets))
      for (const socket of sockets ?? []) socket.destroy()
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

  async *#chunksOf(
    { response, isRelayed }: Answered,
    operation: string,
    spread: number,
  ): AsyncGenerator<Buffer> {
    const stream = decompressed(response)
    const silent = isRelayed ? relayedSilence : directSilence
    const silenceMs = silent.least + Math.floor(silent.spread * spread)
    const watchdog = new IdleWatchdog(this.#clock, silenceMs, () => {
      this.#closeIdleSockets()
      stream.destroy(silence(operation, `nothing came for ${silenceMs / 1000} s`))
    })
    try {
      for await (const chunk of stream) {
        watchdog.touch()
        yield chunk
      }
    } catch (error) {
      throw connectionError(operation, error)
    } finally {
      watchdog.stop()
      response.destroy()
    }
  }
}

function isOnThisMachine({ localAddress, remoteAddress = '' }: Socket): boolean {
  return remoteAddress === localAddress || remoteAddress.startsWith('127.')
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

function decompressed(response: IncomingMessage): Readable {
  if (response.headers['content-encoding'] !== 'gzip') return response
  // The callback ignores errors: the reader of the stream gets them.
  return pipeline(response, createGunzip(), () => undefined)
}

function silence(operation: string, problem: string): ApiError {
  return new ApiError({ code: 'silence', operation, problem })
}

function connectionError(operation: string, error: unknown, login?: Login): ApiError {
  if (error instanceof ApiError) return error
  return new ApiError({ code: 'connection', operation, problem: explainConnection(error, login?.trusted) })
}

/** The error for an answer with another status than 200. */
async function refusal(
  response: IncomingMessage,
  chunks: AsyncIterable<Buffer>,
  operation: string,
): Promise<ApiError> {
  const code = response.statusCode ?? 0
  const header = Number(response.headers['retry-after'] ?? 0)
  let status: Status = statusOf(undefined)
  try {
    const body = await readReply(chunks, operation)
    const isProtobuf = response.headers['content-type']?.startsWith(protobufType) === true
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
