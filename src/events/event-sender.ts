// The queue of Events to the API server, the limit of requests, and the reports of refusals.
import { Backoff, type Clock } from '../clock.js'
import type { EventRecorder, EventReport } from '../event.js'
import { StateReporter, type Log, type Problem } from '../log.js'
import type { Metrics } from '../metrics/index.js'
import { ApiError, type ApiClient, type ApiWrite, type ClientOptions, openApiClient } from '../api/index.js'
import {
  eventObject,
  seriesField,
  type EventSeries,
  seriesEndMs,
  SeriesTable,
  type EventObject,
} from './event-series.js'

export interface EventSenderOptions {
  /** undefined: there is no API server, so nothing is sent. */
  readonly client: ClientOptions | undefined
  /** The reporting node. */
  readonly nodeName: string
  readonly limit: RateLimit
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  readonly log: Log
  readonly metrics: Pick<Metrics, 'apiEvent'>
}

/** As in client-go. An Event has about a kilobyte. */
const longestQueue = 1000
/** With the delays between them, about 90 s. */
const mostAttempts = 8

/** Statuses that a retry may avoid. With another 4xx, the Event is invalid or this agent may not write it. */
const passingStatuses: readonly (number | undefined)[] = [401, 408, 429]

/** Sends Events to the API server, one at a time. */
export class EventSender implements EventRecorder {
  readonly #options: EventSenderOptions
  readonly #series = new SeriesTable()
  /** Series to send, in order. A series that changes meanwhile is sent once, with its latest count. */
  readonly #waiting = new Set<EventSeries>()
  readonly #bucket: TokenBucket
  readonly #problems: StateReporter
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
    this.#problems = new StateReporter({
      log,
      level: 'warn',
      problemLine: 'Events are not sent',
      recovery: 'Events are sent again',
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

  /** Sends the pending Events for up to `graceMs`. Afterwards nothing runs any more. Never throws. */
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
      this.#problems.report('queue', { text: `${longestQueue} are waiting: further ones are dropped` })
      if (series.sentCount === 0) this.#series.forget(series)
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
    this.#problems.report('queue', undefined)
    this.#sending = undefined
  }

  /** Sends until the server has accepted the series, or no retry can help. */
  async #send(series: EventSeries, client: ApiClient): Promise<void> {
    const { random, metrics, clock } = this.#options
    const backoff = new Backoff({ random, shortestMs: 800, longestMs: 30_000 })
    for (let attempt = 1; ; attempt++) {
      const failure = await this.#write(series, client)
      if (this.#end.signal.aborted) return
      if (failure === undefined) {
        this.#problems.report('API', undefined)
        return metrics.apiEvent('sent')
      }
      if (!mayPass(failure)) {
        this.#refusals.note(failure, series.event, clock.now())
        break
      }
      this.#problems.report('API', problemOf(failure))
      if (attempt === mostAttempts) break
      await this.#sleep(Math.max(backoff.next(), failure.retryAfterMs, this.#bucket.take()))
      if (this.#end.signal.aborted) return
    }
    metrics.apiEvent('failed')
    if (series.sentCount === 0) this.#series.forget(series)
  }

  /** One attempt; undefined: it succeeded. */
  async #write(series: EventSeries, client: ApiClient): Promise<ApiError | undefined> {
    const { count } = series
    try {
      const isThere = series.sentCount > 0 && (await this.#patched(series, client))
      // 409: an earlier attempt created it, and its answer was lost. Its first count is stored.
      const isNew = isThere || (await unless(409, client.write(creationOf(series))))
      series.sentCount = isNew ? count : 1
    } catch (error) {
      if (error instanceof ApiError) return error
      throw error
    }
    series.sentMs = this.#options.clock.now()
    return undefined
  }

  /** Updates the count. False: the server has forgotten the Event; its creation may be sent now. */
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

  /** Sweeps only while there are series or refusals, so that an agent without Events has no timer. */
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

  /** Returns early when the sender stops. */
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

/** False: the server refused with this status. */
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

/** Without names of objects, so that a problem of all Events is reported once. */
function problemOf(error: ApiError): Problem {
  const text = error.status === undefined ? 'the API server does not answer' : `status ${error.status}`
  return { text, fields: { err: error } }
}

/** A refusal without another one for this time is over. */
const quietMs = 6 * 60_000

/**
 * Reports Events that the server refused, once per status: a namespace may refuse Events while others accept them.
 */
class Refusals {
  readonly #reporter: StateReporter
  /** Time of the last refusal, by text. */
  readonly #lastMs = new Map<string, number>()

  constructor(log: Log) {
    this.#reporter = new StateReporter({
      log,
      level: 'warn',
      problemLine: 'An Event was refused',
      recovery: 'No such Event has been refused for 6 minutes',
    })
  }

  /** Reports a refusal; `error` has a status. */
  note(error: ApiError, { metadata, regarding }: EventObject, nowMs: number): void {
    const advice =
      error.status === 403
        ? ': the agent needs the verbs create and patch for events of events.k8s.io there, or the namespace is being deleted'
        : ''
    const text = `status ${error.status}${advice}`
    const object = `${regarding.kind} ${regarding.name}`
    this.#lastMs.set(text, nowMs)
    this.#reporter.report(text, { text, fields: { namespace: metadata.namespace, object, err: error } })
  }

  sweep(nowMs: number): void {
    for (const [text, lastMs] of this.#lastMs) {
      if (nowMs - lastMs < quietMs) continue
      this.#lastMs.delete(text)
      this.#reporter.report(text, undefined)
    }
  }

  /** The number of refusals that are not over. */
  get size(): number {
    return this.#lastMs.size
  }
}

/** Limits requests as client-go does: `burst` at once, and `qps` per second on average. */
interface RateLimit {
  /** Negative: no limit. */
  readonly qps: number
  readonly burst: number
}

// The longest delay of a timer of Node.
const longestWaitMs = 2 ** 31 - 1

class TokenBucket {
  readonly #limit: RateLimit
  readonly #now: () => number
  #tokens: number
  #countedMs: number

  /** `now`: milliseconds; never goes back. */
  constructor(limit: RateLimit, now: () => number) {
    this.#limit = limit
    this.#now = now
    this.#tokens = limit.burst
    this.#countedMs = now()
  }

  /** Takes a token, and returns the milliseconds until it may be used. */
  take(): number {
    const { qps, burst } = this.#limit
    if (qps < 0) return 0
    const nowMs = this.#now()
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#countedMs) * qps) / 1000)
    this.#countedMs = nowMs
    this.#tokens -= 1
    return Math.min(Math.max(0, (-this.#tokens * 1000) / qps), longestWaitMs)
  }
}
