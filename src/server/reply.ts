// Pages, their replies, and the dispatch of requests to pages.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { StateReporter } from '../log.js'

/** A complete reply. */
export interface Reply {
  readonly status: number
  readonly contentType: string
  /** The text, or its parts. They are made while the client reads. */
  readonly body: string | AsyncIterable<string | Uint8Array>
  /** The name under which a browser saves the reply; absent: the browser shows it. */
  readonly fileName?: string
  /** The target of a redirect. */
  readonly location?: string
  /** Further headers. */
  readonly headers?: Readonly<Record<string, string>>
}

/** The parts of a request that pages use. */
export interface PageRequest {
  readonly method: string
  /** The parameters after the question mark. */
  readonly query: URLSearchParams
  /** The header Accept; undefined: the client accepts all types. */
  readonly accept: string | undefined
  /** The header Host; undefined: the request has none, or several. */
  readonly host: string | undefined
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal
  /** Reads the body. NB: call it only once. undefined: the body is too long or incomplete. */
  readonly body: () => Promise<string | undefined>
}

/** Makes the reply. A page that ignores the method gives the same reply for every method, as in kube-proxy. */
export type Page = (request: PageRequest) => Reply | Promise<Reply>

/** Pages by path. */
export type Pages = ReadonlyMap<string, Page>

export function text(body: string, status = 200): Reply {
  return { status, contentType: 'text/plain; charset=utf-8', body }
}

export function json(value: unknown, status = 200): Reply {
  return { status, contentType: 'application/json', body: JSON.stringify(value) }
}

// With a newline, as Go's http.NotFound and http.Error.
const notFound = text('404 page not found\n', 404)
const failed = text('the page failed: see the log\n', 500)

/** Replies with the page of the path, or with 404. If the page throws, replies with 500 and reports the path to `problems`. */
export function answering(pages: Pages, problems: StateReporter): RequestListener {
  return (request, response) => {
    const { url, host } = targetOf(request.url ?? '')
    const end = url.indexOf('?')
    const path = end < 0 ? url : url.slice(0, end)
    const page = pages.get(path)
    if (page === undefined) return void send(response, notFound)
    const query = new URLSearchParams(end < 0 ? '' : url.slice(end))
    // A client that waits for a slow page is not idle. A client that does not read the reply is.
    response.on('timeout', () => {
      if (response.headersSent) request.socket.destroy()
    })
    replyOf(path, async () => await page(pageRequest(request, response, { query, host })), problems)
      .then(async (reply) => await send(response, reply))
      .catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined))
  }
}

/**
 * The path and the parameters of a request's target. An absolute URI has the host too, which counts in place of the header (RFC 9112,
 * 3.2.2).
 */
function targetOf(target: string): { readonly url: string; readonly host: string | undefined } {
  const [start, host] = /^https?:\/\/([^/?]*)/iu.exec(target) ?? ['', undefined]
  const rest = target.slice(start.length)
  return { url: rest.startsWith('/') ? rest : `/${rest}`, host }
}

function pageRequest(
  request: IncomingMessage,
  response: ServerResponse,
  { query, host }: { readonly query: URLSearchParams; readonly host: string | undefined },
): PageRequest {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  return {
    method: request.method ?? '',
    query,
    accept: request.headers.accept,
    host: host ?? (request.headersDistinct['host']?.length === 1 ? request.headers.host : undefined),
    signal: gone.signal,
    body: async () => await bodyOf(request),
  }
}

const longestBody = 1024

async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  request.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= longestBody) chunks.push(chunk)
  })
  await new Promise((resolve) => request.once('end', resolve).once('close', resolve))
  return size <= longestBody && request.complete ? Buffer.concat(chunks).toString() : undefined
}

async function replyOf(path: string, make: () => Promise<Reply>, problems: StateReporter): Promise<Reply> {
  try {
    const reply = await make()
    problems.report(path, undefined)
    return reply
  } catch (error) {
    problems.report(path, { text: `${path}: ${error instanceof Error ? error.message : String(error)}` })
    return failed
  }
}

/** Rejects if the parts of the body cannot be made. */
async function send(
  response: ServerResponse,
  { status, contentType, body, fileName, location, headers }: Reply,
): Promise<void> {
  if (response.destroyed) return
  response.writeHead(status, {
    'Content-Type': contentType,
    'X-Content-Type-Options': 'nosniff',
    ...(typeof body === 'string' ? { 'Content-Length': Buffer.byteLength(body) } : {}),
    ...(fileName === undefined ? {} : { 'Content-Disposition': `attachment; filename="${fileName}"` }),
    ...(location === undefined ? {} : { Location: location }),
    ...headers,
  })
  if (typeof body === 'string') response.end(body)
  else await sendParts(response, body)
}

/** Resolves when all parts are sent, or the client is gone. Rejects with the error of `parts`. */
async function sendParts(response: ServerResponse, parts: AsyncIterable<string | Uint8Array>): Promise<void> {
  for await (const part of parts) {
    if (response.destroyed) return
    if (!response.write(part)) await writable(response)
  }
  response.end()
}

async function writable(response: ServerResponse): Promise<void> {
  await new Promise<void>((resolve) => {
    const settle = (): void => {
      response.removeListener('drain', settle).removeListener('close', settle)
      resolve()
    }
    response.once('drain', settle).once('close', settle)
  })
}
