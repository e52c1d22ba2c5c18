// The pages of the metrics server: for Prometheus and for operators (F-095 to F-098).
import { openHealthcheckMetrics, type HealthcheckMetrics } from '../metrics/index.js'
import type { Clock } from '../clock.js'
import { json, text, type Page, type Pages, type PageRequest, type Reply } from './reply.js'

/** The data of the pages. The functions are called for each request. */
export interface OperatorFacts {
  /** Unix milliseconds. */
  readonly startedMs: number
  readonly version: string
  /** The active proxy mode. */
  readonly mode: string
  /** All metrics in the text format of Prometheus. */
  readonly metrics: { readonly contentType: string; metrics(): Promise<string> }
  /** The effective KubeProxyConfiguration. */
  readonly configuration: () => unknown
  /** The values of all flags as text, by name; the default for a flag that was not given. */
  readonly flags: () => Readonly<Record<string, string>>
}

type PagesClock = Pick<Clock, 'now' | 'schedule' | 'unixMs'>

export function operatorPages(facts: OperatorFacts, clock: PagesClock): Pages {
  const checks = openHealthcheckMetrics()
  const metrics = new SharedWork(async () => await metricsReply(facts.metrics), clock)
  const pages: Map<string, Page> = new Map<string, Page>([
    ['/metrics', async () => await metrics.result()],
    ['/metrics/slis', async (request) => await healthchecksReply(request, checks)],
    ['/proxyMode', () => text(facts.mode)],
    ['/configz', () => json({ 'kubeproxy.config.k8s.io': facts.configuration() })],
    ['/healthz', (request) => pinged(request, checks)],
    ['/healthz/ping', () => text('ok')],
    ['/flagz', async (request) => await flagz(request, facts.flags())],
    ['/statusz', async (request) => await statusz(request, { facts, nowMs: clock.unixMs(), paths })],
  ])
  const paths: readonly string[] = [...pages.keys()].toSorted()
  return pages
}

async function metricsReply(metrics: OperatorFacts['metrics']): Promise<Reply> {
  return { status: 200, contentType: metrics.contentType, body: await metrics.metrics() }
}

async function healthchecksReply({ method }: PageRequest, checks: HealthcheckMetrics): Promise<Reply> {
  if (method !== 'DELETE') return await metricsReply(checks)
  checks.reset()
  return text('metrics reset\n')
}

/** Shows only that this server replies. `/healthz` of the health server has the node's health. */
function pinged({ query }: PageRequest, checks: HealthcheckMetrics): Reply {
  checks.count('ping', 'healthz', true)
  return text(query.has('verbose') ? '[+]ping ok\nhealthz check passed\n' : 'ok')
}

/** The head and the versions of /statusz and /flagz. */
const warning =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.'
const component = 'kube-proxy'
const apiGroup = 'config.k8s.io'
const deprecatedVersion = 'v1alpha1'
const versions: readonly string[] = [deprecatedVersion, 'v1beta1']

/** `nowMs`: Unix milliseconds. `paths`: of all pages. */
async function statusz(
  request: PageRequest,
  {
    facts: { startedMs, version },
    nowMs,
    paths,
  }: { readonly facts: OperatorFacts; readonly nowMs: number; readonly paths: readonly string[] },
): Promise<Reply> {
  const seconds = Math.max(0, Math.floor((nowMs - startedMs) / 1000))
  return await negotiated(request, 'Statusz', {
    text: () =>
      [
        `Started: ${unixDate(startedMs)}`,
        `Up: ${uptime(seconds)}`,
        `Go version: ${process.version}`,
        `Binary version: ${version}`,
        `Emulation version: ${version}`,
        `Paths: ${paths.join(' ')}`,
      ].join('\n'),
    fields: () => ({
      startTime: new Date(startedMs).toISOString().replace(/\.\d+Z$/u, 'Z'),
      uptimeSeconds: seconds,
      goVersion: process.version,
      binaryVersion: version,
      emulationVersion: version,
      paths,
    }),
  })
}

/** `flags`: values by name. */
async function flagz(request: PageRequest, flags: Readonly<Record<string, string>>): Promise<Reply> {
  const entries = Object.entries(flags).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return await negotiated(request, 'Flagz', {
    text: () => entries.map(([name, value]) => `${name}=${value}`).join('\n'),
    fields: () => ({ flags: Object.fromEntries(entries) }),
  })
}

interface Forms {
  readonly text: () => string
  /** Fields of the object, without its kind. */
  readonly fields: () => object
}

/** Writers of an object by media type. */
const writers: ReadonlyMap<string, (value: object) => Promise<string>> = new Map([
  ['application/json', async (value: object) => await Promise.resolve(JSON.stringify(value))],
  ['application/yaml', yamlOf],
])

/** Loads js-yaml only now. Keys are sorted, as in YAML of Kubernetes. */
async function yamlOf(value: object): Promise<string> {
  const { dump } = await import('js-yaml')
  return dump(value, { lineWidth: -1, sortKeys: true })
}

/** Replies with text, with the object if the client accepts one of its versions, or with 406. */
async function negotiated(
  { accept = '*/*' }: PageRequest,
  kind: 'Statusz' | 'Flagz',
  forms: Forms,
): Promise<Reply> {
  for (const range of accept.split(',')) {
    const [type = '', ...rest] = range.split(';').map((part) => part.trim().toLowerCase())
    if (['text/plain', 'text/*', '*/*'].includes(type))
      return text(`\n${component} ${kind.toLowerCase()}\n${warning}\n\n${forms.text()}\n`)
    const version = versions.find((candidate) => rest.includes(`v=${candidate}`))
    const isOurs = rest.includes(`g=${apiGroup}`) && rest.includes(`as=${kind.toLowerCase()}`)
    const write = writers.get(type)
    if (write === undefined || version === undefined || !isOurs) continue
    const head = { kind, apiVersion: `${apiGroup}/${version}`, metadata: { name: component } }
    const contentType = `${type};g=${apiGroup};v=${version};as=${kind}`
    const headers = version === deprecatedVersion ? deprecation(kind) : {}
    return { status: 200, contentType, headers, body: await write({ ...head, ...forms.fields() }) }
  }
  const types = ['text/plain', ...writers.keys()].join(', ')
  return text(`supported types: ${types}; the latter two with the parameters v, g and as\n`, 406)
}

/** kube-proxy 1.37's header with the objects of a deprecated version. */
function deprecation(kind: 'Statusz' | 'Flagz'): NonNullable<Reply['headers']> {
  const page = kind.toLowerCase()
  return {
    Warning: `299 - "This version of the ${page} endpoint is deprecated. Please use a newer version."`,
  }
}

function uptime(seconds: number): string {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  return `${hours} hr ${twoDigits(minutes)} min ${twoDigits(seconds % 60)} sec`
}

function twoDigits(number: number): string {
  return String(number).padStart(2, '0')
}

/** Go's time.UnixDate: `Mon Jan _2 15:04:05 MST 2006`. */
function unixDate(unixMs: number): string {
  const [weekday, day = '', month, year, time] = new Date(unixMs).toUTCString().split(/,? /u)
  return `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} UTC ${year}`
}

/** From the end of one run to the start of the next. A rendering takes some milliseconds. */
const restMs = 100

/** Runs the work once for all callers that wait for its result, with a pause of 100 ms between runs. Results are not cached. */
class SharedWork<T> {
  readonly #work: () => Promise<T>
  readonly #clock: Pick<Clock, 'now' | 'schedule'>
  #current: Promise<T> | undefined
  #endMs = Number.NEGATIVE_INFINITY

  constructor(work: () => Promise<T>, clock: Pick<Clock, 'now' | 'schedule'>) {
    this.#work = work
    this.#clock = clock
  }

  /** Resolves with the result of the work, or rejects with its error. */
  async result(): Promise<T> {
    this.#current ??= this.#run()
    return await this.#current
  }

  async #run(): Promise<T> {
    const waitMs = this.#endMs + restMs - this.#clock.now()
    if (waitMs > 0) await new Promise<void>((resolve) => this.#clock.schedule(waitMs, resolve))
    try {
      return await this.#work()
    } finally {
      this.#endMs = this.#clock.now()
      this.#current = undefined
    }
  }
}
