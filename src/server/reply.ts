// What pages answer, and how a request finds its page.
import type { RequestListener, ServerResponse } from 'node:http'
import type { StateReporter } from '../log.js'

/** A whole reply. */
export interface Reply {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

/** What pages look at of a request. */
export interface PageRequest {
  /** What is behind the question mark. */
  readonly query: URLSearchParams
  /** undefined: the client takes anything. */
  readonly accept: string | undefined
}

/** Every method is answered alike, as in kube-proxy. */
export type Page = (request: PageRequest) => Reply | Promise<Reply>

/** By path. */
export type Pages = ReadonlyMap<string, Page>

export function text(body: string, status = 200): Reply {
  return { status, contentType: 'text/plain; charset=utf-8', body }
}

export function json(value: unknown, status = 200): Reply {
  return { status, contentType: 'application/json', body: JSON.stringify(value) }
}

// http.NotFound and http.Error of Go end their lines.
const notFound = text('404 page not found\n', 404)
const failed = text('the page could not be made: see the log\n', 500)

/** Answers with the page of the path, else 404. A page that throws is a 500, told by `problems` under its path. */
export function answering(pages: Pages, problems: StateReporter): RequestListener {
  return (request, response) => {
    const url = request.url ?? ''
    const end = url.indexOf('?')
    const path = end < 0 ? url : url.slice(0, end)
    const page = pages.get(path)
    if (page === undefined) return send(response, notFound)
    const query = new URLSearchParams(end < 0 ? '' : url.slice(end))
    replyOf(path, async () => await page({ query, accept: request.headers.accept }), problems).then(
      (reply) => send(response, reply),
      (error: unknown) => response.destroy(error instanceof Error ? error : undefined),
    )
  }
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

function send(response: ServerResponse, { status, contentType, body }: Reply): void {
  response.writeHead(status, {
    'Content-Type': contentType,
    'X-Content-Type-Options': 'nosniff',
    'Content-Length': Buffer.byteLength(body),
  })
  response.end(body)
}
