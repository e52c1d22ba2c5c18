import { Backoff } from '../backoff.js'
import type { Clock } from '../clock.js'
import type { EventRecorder, EventReport } from '../event.js'
import { StateReporter, type Log, type Problem } from '../log.js'
import type { Metrics } from '../metrics/index.js'
import { ApiError, type ApiClient, type ApiWrite, type ClientOptions, openApiClient } from '../api/index.js'
import { eventObject, seriesField } from './event-object.js'
import { type EventSeries, seriesEndMs, SeriesTable } from './event-series.js'
import { Refusals } from './refusals.js'
import { type RateLimit, TokenBucket } from './token-bucket.js'

export interface EventSenderOptions {
  /** undefined: there is no API server, and nothing is sent. */
  readonly client: ClientOptions | undefined
  /** Who tells. */
  readonly nodeName: string
  readonly limit: RateLimit
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  readonly log: Log
  readonly metrics: Pick<Metrics, 'apiEvent'>
}

/** A kilobyte each; client-go lets as many wait. */
const longestQueue = 1000
/** With the delays between them about a minute and a half. */
const mostAttempts = 8

/** Refusals that may be none the next time; with other ones the event is at fault, or we may not write any. */
const passingStatuses: readonly (number | undefined)[] = [401, 408, 429]

/** Brings events to the API server, one at a time, as far as it takes them. */
export class EventSender implements EventRecorder {
  readonly #options: EventSenderOptions
  readonly #series = new SeriesTable()
  /** In order; a series that changes while it waits is sent once, as it is then. */
  readonly #waiting = new Set<EventSeries>()
  readonly #bucket: TokenBucket
  readonly #troubles: StateReporter
  readonly #refusals: Refusals
  readonly #end = new AbortController()
  #client: Promise<ApiClient> | undefined
  #sending: Promise<void> | undefined
  #isClosed = false
  #cancelSweep: (() => void) | undefined

  constructor(options: EventSenderOptions) {
    const { limit, clock, log } = options
    this.#options = options
    this.#bucket = new TokenBucket(limit, () => clock.now())
    this.#troubles = new StateReporter({
      log,
      level: 'warn',
      trouble: 'Events are not sent',
      recovery: 'Events are sent again',
      count: () => {},
    })
    this.#refusals = new Refusals(log)
  }

  record(report: EventReport): void {
    const { client, clock, nodeName, random, log } = this.#options
    if (this.#isClosed) return
    log.debug('Event', { ...report })
    if (client === undefined) return
    const at = { ms: clock.now(), unixMs: clock.unixMs() }
    const series = this.#series.note(report, at, () =>
      eventObject(report, { nodeName, unixMs: at.unixMs, random: random() }),
    )
    if (series !== undefined) this.#enqueue(series, client)
    this.#sweepLater(client)
  }

  /** What waits has `graceMs` to be sent; after that, nothing of this runs any more. Never throws. */
  async stop(graceMs: number): Promise<void> {
    this.#isClosed = true
    this.#cancelSweep?.()
    if (this.#sending !== undefined) {
      const cancel = this.#options.clock.schedule(graceMs, () => this.#end.abort())
      await this.#sending
      cancel()
    }
    this.#end.abort()
  }

  #enqueue(series: EventSeries, client: ClientOptions): void {
    if (this.#waiting.size >= longestQueue && !this.#waiting.has(series)) {
      this.#options.metrics.apiEvent('overflow')
      this.#troubles.report('queue', { text: `${longestQueue} are waiting: further ones are dropped` })
      if (series.toldCount === 0) this.#series.forget(series)
      return
    }
    this.#waiting.add(series)
    this.#sending ??= this.#sendAll(client)
  }

  async #sendAll(clientOptions: ClientOptions): Promise<void> {
    this.#client ??= openApiClient(clientOptions, this.#options.clock, this.#end.signal)
    const client = await this.#client
    for (const series of this.#waiting) {
      await this.#sleep(this.#bucket.take())
      if (this.#end.signal.aborted) return
      this.#waiting.delete(series)
      await this.#send(series, client)
    }
    this.#sweepLater(clientOptions)
    this.#troubles.report('queue', undefined)
    this.#sending = undefined
  }

  /** Until it is there, or it is given up. */
  async #send(series: EventSeries, client: ApiClient): Promise<void> {
    const { random, metrics, clock } = this.#options
    const backoff = new Backoff({ random, shortestMs: 800, longestMs: 30_000 })
    for (let attempt = 1; ; attempt++) {
      const failure = await this.#write(series, client)
      if (this.#end.signal.aborted) return
      if (failure === undefined) {
        this.#troubles.report('API', undefined)
        return metrics.apiEvent('sent')
      }
      if (!mayPass(failure)) {
        this.#refusals.note(failure, series.event, clock.now())
        break
      }
      this.#troubles.report('API', troubleOf(failure))
      if (attempt === mostAttempts) break
      await this.#sleep(Math.max(backoff.next(), failure.retryAfterMs, this.#bucket.take()))
      if (this.#end.signal.aborted) return
    }
    metrics.apiEvent('failed')
    if (series.toldCount === 0) this.#series.forget(series)
  }

  /** undefined: the server knows it now. */
  async #write(series: EventSeries, client: ApiClient): Promise<ApiError | undefined> {
    const { count } = series
    try {
      const isThere = series.toldCount > 0 && (await this.#patched(series, client))
      // Sent before, and only the answer was lost: as it was then it is there.
      const isNew = isThere || (await unless(409, client.write(creationOf(series))))
      series.toldCount = isNew ? count : 1
    } catch (error) {
      if (error instanceof ApiError) return error
      throw error
    }
    series.toldMs = this.#options.clock.now()
    return undefined
  }

  /** False: the server has forgotten the Event, and the turn for its creation has come. */
  async #patched(series: EventSeries, client: ApiClient): Promise<boolean> {
    const { name, namespace } = series.event.metadata
    const isThere = await unless(
      404,
      client.write({
        method: 'PATCH',
        path: `${pathOf(namespace)}/${encodeURIComponent(name)}`,
        contentType: 'application/strategic-merge-patch+json',
        body: JSON.stringify(seriesField(series)),
      }),
    )
    if (!isThere) await this.#sleep(this.#bucket.take())
    return isThere
  }

  /** Only while there is something that may end, so that an agent with nothing to tell has no timer. */
  #sweepLater(client: ClientOptions): void {
    const isNeeded = this.#series.size > 0 || this.#refusals.size > 0
    if (this.#isClosed || this.#cancelSweep !== undefined || !isNeeded) return
    const { clock } = this.#options
    this.#cancelSweep = clock.schedule(seriesEndMs, () => {
      this.#cancelSweep = undefined
      this.#refusals.sweep(clock.now())
      for (const series of this.#series.sweep(clock.now())) this.#enqueue(series, client)
      this.#sweepLater(client)
    })
  }

  /** Returns early when all is to end. */
  async #sleep(delayMs: number): Promise<void> {
    const { signal } = this.#end
    if (delayMs === 0 || signal.aborted) return
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        cancel()
        signal.removeEventListener('abort', wake)
        resolve()
      }
      const cancel = this.#options.clock.schedule(delayMs, wake)
      signal.addEventListener('abort', wake)
    })
  }
}

function pathOf(namespace: string): string {
  return `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`
}

function creationOf(series: EventSeries): ApiWrite {
  const { event, count } = series
  const body = count === 1 ? event : { ...event, ...seriesField(series) }
  return {
    method: 'POST',
    path: pathOf(event.metadata.namespace),
    contentType: 'application/json',
    body: JSON.stringify(body),
  }
}

/** False: refused with this status. */
async function unless(status: number, write: Promise<void>): Promise<boolean> {
  try {
    await write
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === status) return false
    throw error
  }
}

function mayPass({ status }: ApiError): boolean {
  return status === undefined || status >= 500 || passingStatuses.includes(status)
}

/** Without names of objects: what is wrong with all events is told once. */
function troubleOf(error: ApiError): Problem {
  const text = error.status === undefined ? 'the API server does not answer' : `status ${error.status}`
  return { text, fields: { err: error } }
}
