import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Clock } from '../clock.js'
import { ApiError } from './api-error.js'
import { answerDeadlineMs, type ClientOptions, type Login } from './client-options.js'
import { explainConnection } from './connection-problem.js'

/** The answer to one request, of any status. */
export interface ApiReply {
  readonly status: number
  readonly body: string
  readonly tookMs: number
  /** How far this machine's clock is ahead of the server's, in milliseconds; undefined: the answer has no header Date. */
  readonly skewMs: number | undefined
}

interface Question {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** A JSON value. */
  readonly body?: unknown
}

/** Sends one request in JSON over a connection of its own. Throws ApiError without an answer within `answerDeadlineMs`. */
export async function askOnce(options: ClientOptions, question: Question, clock: Clock): Promise<ApiReply> {
  const deadline = new AbortController()
  const cancel = clock.schedule(answerDeadlineMs, () => deadline.abort())
  try {
    return await ask(options, question, clock, deadline.signal)
  } finally {
    cancel()
  }
}

async function ask(
  options: ClientOptions,
  { method, path, body }: Question,
  clock: Clock,
  signal: AbortSignal,
): Promise<ApiReply> {
  const fail = (code: 'connection' | 'credentials', error: unknown, login?: Login): ApiError => {
    const silence = `no answer within ${answerDeadlineMs / 1000} s`
    const problem = signal.aborted ? silence : explainConnection(error, login?.trusted)
    return new ApiError({ code, operation: `${method} ${path}`, problem })
  }
  const login = await options.login(signal).catch((error: unknown) => {
    throw fail('credentials', error)
  })
  const url = new URL(options.server)
  url.pathname = `${url.pathname.replace(/\/$/u, '')}${path}`
  const send = url.protocol === 'https:' ? requestHttps : requestHttp
  const headers = {
    ...login.headers,
    accept: 'application/json',
    'content-type': 'application/json',
    'user-agent': 'viaduct',
  }
  const startMs = clock.now()
  return await new Promise<ApiReply>((resolve, reject) => {
    const give = (error: unknown): void => reject(fail('connection', error, login))
    const sent = send(
      url,
      { method, agent: login.agent ?? false, ...login.tls, headers, signal },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => void chunks.push(chunk))
        response.on('error', give)
        response.on('end', () => {
          const date = Date.parse(response.headers.date ?? '')
          resolve({
            status: response.statusCode ?? 0,
            body: Buffer.concat(chunks).toString(),
            tookMs: clock.now() - startMs,
            skewMs: Number.isNaN(date) ? undefined : clock.unixMs() - date,
          })
        })
      },
    )
    sent.on('error', give)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}
