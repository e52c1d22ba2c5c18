// The pages of the control socket: /v1/NAME?PARAMETER=VALUE, GET only.
import type { Clock } from '../clock.js'
import { ConfigError, KernelError } from '../errors.js'
import {
  configuration,
  connections,
  type Counters,
  endpoints,
  explain,
  history,
  type Inspected,
  readCounters,
  routes,
  type Rows,
  services,
  status,
} from '../inspect/index.js'
import { json, type Page, type PageRequest, type Pages, type Reply } from '../server/index.js'

/** Makes the snapshot. ConfigError: a parameter is wrong. undefined: the Service is not known. */
type Question = (
  service: string | undefined,
  query: URLSearchParams,
) => object | undefined | Promise<object | undefined>

/** The records of the agent for a bug report. The functions are called for each request. */
export interface Records {
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
  const questions: Readonly<Record<string, Question>> = {
    status: async () => await status(inspected),
    configuration: () => configuration(inspected),
    services: rowsWith(services, inspected),
    endpoints: rowsWith(endpoints, inspected),
    routes: rowsWith(routes, inspected),
    connections: async (service) => await connections(inspected, service),
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
  return new Map(Object.entries(questions).map(([name, question]) => [`/v1/${name}`, page(question, clock)]))
}

/** The rows, with figures if the query asks for them: `counters=true`. An unknown Service costs no reading of the kernel. */
function rowsWith(
  rows: (
    ...asked: readonly [inspected: Inspected, service: string | undefined, counters?: Counters]
  ) => Rows<unknown> | undefined,
  inspected: Inspected,
): Question {
  return async (service, query) => {
    const plain = rows(inspected, service)
    if (plain === undefined || query.get('counters') !== 'true') return plain
    return rows(inspected, service, await readCounters(inspected, service))
  }
}

function page(question: Question, clock: Pick<Clock, 'pause'>): Page {
  return async ({ method, query }: PageRequest): Promise<Reply> => {
    if (method !== 'GET') return json({ error: `${method} is not supported: only GET` }, 405)
    const service = query.get('service') ?? undefined
    try {
      const value = await question(service, query)
      if (value === undefined) return json({ error: `no Service ${service} is known to this agent` }, 404)
      if (!isRows(value)) return json(value)
      return { status: 200, contentType: 'application/json', body: parts(value.items, clock) }
    } catch (error) {
      if (error instanceof ConfigError) return json({ error: error.message }, 400)
      if (error instanceof KernelError) return json({ error: error.message }, 503)
      throw error
    }
  }
}

function isRows(value: object): value is Rows<unknown> {
  return 'items' in value
}

/** Rows per part: some 0.5 ms of work. */
const rowsPerPart = 50

/** `{"items":[…]}` in parts. Between two of them other work of the agent gets its turn. */
async function* parts(items: Iterable<unknown>, clock: Pick<Clock, 'pause'>): AsyncGenerator<string> {
  let texts: string[] = []
  let separator = ''
  yield '{"items":['
  for (const item of items) {
    texts.push(JSON.stringify(item))
    if (texts.length < rowsPerPart) continue
    yield separator + texts.join(',')
    separator = ','
    texts = []
    await clock.pause()
  }
  yield `${texts.length === 0 ? '' : separator}${texts.join(',')}]}\n`
}
