// The pages of the control socket: /v1/NAME?PARAMETER=VALUE is JSON, /v1/tables/NAME?PARAMETER=VALUE a table. GET only.
import type { Clock } from '../clock.js'
import { ConfigError, KernelError } from '../errors.js'
import {
  configuration,
  connections,
  endpoints,
  explain,
  history,
  type Inspected,
  readCounters,
  type ReadForRows,
  routes,
  type Rows,
  services,
  status,
  type TableRows,
} from '../inspect/index.js'
import { json, type Page, type PageRequest, type Pages, type Reply } from '../server/index.js'

/** Makes the snapshot. `signal` aborts when the client is gone. ConfigError: a parameter is wrong. undefined: the Service is not known. */
type Question<Value extends object = object> = (
  service: string | undefined,
  query: URLSearchParams,
  signal: AbortSignal,
) => Value | undefined | Promise<Value | undefined>

/** The records of the agent for a bug report. The functions are called for each request. */
interface Records {
  /** The last lines of the log, oldest first. */
  readonly log: () => readonly string[]
  /** The values of all flags as text. */
  readonly flags: Readonly<Record<string, string>>
  /** All metrics in the text format of Prometheus. */
  readonly metrics: () => Promise<string>
}

/**
 * The pages by path. A wrong parameter gets the reply 400, an unknown Service 404, a refusal of the kernel 503, each with `error`: one
 * sentence.
 */
export function controlPages(inspected: Inspected, records: Records): Pages {
  const { clock } = inspected
  const lists: Readonly<Record<string, Question<TableRows<unknown>>>> = {
    services: rowsWith(services, inspected),
    endpoints: rowsWith(endpoints, inspected),
    routes: rowsWith(routes, inspected),
  }
  const questions: Readonly<Record<string, Question>> = {
    status: async () => await status(inspected),
    configuration: () => configuration(inspected),
    ...lists,
    connections: async (service, _query, signal) => await connections(inspected, service, signal),
    history: () => history(inspected),
    log: () => ({ items: records.log() }),
    flags: () => records.flags,
    metrics: async () => ({ text: await records.metrics() }),
    explain: async (_service, query) =>
      await explain(inspected, {
        client: query.get('client') ?? '',
        destination: query.get('destination') ?? '',
        inInterface: query.get('interface') ?? undefined,
      }),
  }
  const pages = Object.entries(questions).map(([name, question]): readonly [string, Page] => [
    `/v1/${name}`,
    page(question, (value) =>
      isRows(value) ? parts(jsonTexts(value), 'application/json', clock) : json(value),
    ),
  ])
  const tables = Object.entries(lists).map(([name, list]): readonly [string, Page] => [
    `/v1/tables/${name}`,
    page(list, (value) => parts(tableTexts(value), 'text/plain; charset=utf-8', clock)),
  ])
  return new Map([...pages, ...tables])
}

/** The rows, with figures if the query asks for them: `counters=true`. An unknown Service costs no reading of the kernel. */
function rowsWith(
  rows: (
    ...asked: readonly [inspected: Inspected, service: string | undefined, read: ReadForRows]
  ) => TableRows<unknown> | undefined,
  inspected: Inspected,
): Question<TableRows<unknown>> {
  return async (service, query) => {
    const plain = rows(inspected, service, {})
    if (plain === undefined || query.get('counters') !== 'true') return plain
    return rows(inspected, service, { counters: await readCounters(inspected, service) })
  }
}

function page<Value extends object>(question: Question<Value>, replyOf: (value: Value) => Reply): Page {
  return async ({ method, query, signal }: PageRequest): Promise<Reply> => {
    if (method !== 'GET') return json({ error: `${method} is not supported: only GET` }, 405)
    const service = query.get('service') ?? undefined
    try {
      const value = await question(service, query, signal)
      if (value === undefined) return json({ error: unknownService(service) }, 404)
      return replyOf(value)
    } catch (error) {
      if (error instanceof ConfigError) return json({ error: error.message }, 400)
      if (error instanceof KernelError) return json({ error: error.message }, 503)
      throw error
    }
  }
}

function unknownService(service: string | undefined): string {
  return `no Service ${service} is known to this agent: headless Services and those of type ExternalName have nothing to program`
}

function isRows(value: object): value is Rows<unknown> {
  return 'items' in value
}

/** A JSON object with one row per line. */
function* jsonTexts({ items }: Rows<unknown>): Generator<string> {
  yield '{"items":['
  let separator = '\n'
  for (const item of items) {
    yield separator + JSON.stringify(item)
    separator = ',\n'
  }
  yield '\n]}\n'
}

/** The NUL character at the end shows that the reply is complete: no cell has one. */
function* tableTexts({ texts }: TableRows<unknown>): Generator<string> {
  yield* texts
  yield '\0'
}

/** Milliseconds of work for one part of a reply. */
const partMs = 0.5
/** Texts, and units of UTF-16, that are enough for one look at the clock and one writing. */
const batchTexts = 16
const batchLength = 1024
/** Some 500 rows. */
const partBytes = 64 * 1024

/**
 * A reply in parts. Between two of them other work of the agent gets its turn. Parts are bytes: the garbage collector would copy texts that
 * wait for the end of their part.
 */
function parts(texts: Iterable<string>, contentType: string, clock: Pick<Clock, 'now' | 'pause'>): Reply {
  async function* body(): AsyncGenerator<Uint8Array> {
    let endMs = clock.now() + partMs
    let part = Buffer.allocUnsafe(partBytes)
    let length = 0
    for (const batch of batches(texts)) {
      // A character takes at most 3 bytes per unit of UTF-16.
      const needed = 3 * batch.length
      if (length + needed > part.length || clock.now() >= endMs) {
        if (length > 0) yield part.subarray(0, length)
        await clock.pause()
        endMs = clock.now() + partMs
        part = Buffer.allocUnsafe(Math.max(partBytes, needed))
        length = 0
      }
      length += part.write(batch, length)
    }
    yield part.subarray(0, length)
  }
  return { status: 200, contentType, body: body() }
}

/** The texts, some of them joined. */
function* batches(texts: Iterable<string>): Generator<string, void, undefined> {
  let batch = ''
  let count = 0
  for (const text of texts) {
    batch += text
    if (++count % batchTexts !== 0 && batch.length < batchLength) continue
    yield batch
    batch = ''
  }
  yield batch
}
