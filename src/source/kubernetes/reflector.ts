import type { Clock } from '../../clock.js'
import type { Log, StateReporter } from '../../log.js'
import type { ObjectEvent } from '../objects.js'
import {
  ApiError,
  FormatError,
  FrameError,
  type ApiAnswer,
  type ApiClient,
  type WatchEvent,
  type WireObject,
} from '../../api/index.js'
import { readList, Turns } from './list-reading.js'
import { endsInitialEvents, isNamed, KnownObjects, versionOf } from './known-objects.js'
import type { ListedPart } from './listing-progress.js'
import { LinkRetry, type RetryReason } from './link-retry.js'
import type { Outage } from './outage.js'
import { linkNameOf, type Resource } from './resources.js'

export interface ReflectorOptions {
  readonly resource: Resource
  /** Its objects; absent: none is known yet. */
  readonly known?: KnownObjects
  /** Statuses of refusals that end the reflector; absent: none. */
  readonly finalStatuses?: readonly number[]
  readonly client: ApiClient
  /** Shared by all reflectors of one API server. */
  readonly outage: Outage
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  readonly log: Log
  /** Reports objects that cannot be used. */
  readonly problems: StateReporter
  /** Reports whether the API server answers, with one key per link. */
  readonly links: StateReporter
  /** When aborted, requests and deliveries end. The client uses the same signal. */
  readonly signal: AbortSignal
  /** An error that it throws ends the reflector. */
  readonly deliver: (events: readonly ObjectEvent[]) => void
  /** Called after each list and each chunk of a watch, when their events, if any, have been delivered. */
  readonly progressed: () => void
}

const pageSize = '500'
// The server ends a watch after this time, which is spread so that watches of many nodes do not end together (client-go: 5 to 10
// minutes).
const watchSeconds = { least: 300, spread: 300 }
/** Versions of lists: that of the server's memory, however old; and the newest one of etcd. */
const [anyVersion, latest] = ['0', '']
/** A watch that was open for longer counts as steady, regardless of how it ended. */
const steadyMs = 5000

/**
 * Follows one resource by a list and then watches. No failure of the server ends it, except the final statuses. A wait follows each
 * failure, except the refusal of a streamed list.
 */
export class Reflector implements ListedPart {
  readonly #options: ReflectorOptions
  readonly #known: KnownObjects
  readonly #retry: LinkRetry
  /** Version at which the next watch begins; undefined: a list must come first. */
  #version: string | undefined
  /** The next list is not older than this version. */
  #listFrom = anyVersion
  /** Whether the server streams lists: true until it refuses. A lost connection resets it, since the next server may be a different one. */
  #streamsLists = true
  /** Time at which this attempt opened its stream; undefined: it did not. */
  #openedAt: number | undefined
  /** This attempt got an answer of status 200. */
  #isAnswered = false
  #isListed = false
  /** A watch delivered unreadable data. A readable list or event later does not show that the next one is readable too. */
  #isSuspect = false

  constructor(options: ReflectorOptions) {
    this.#options = options
    this.#known = options.known ?? new KnownObjects(options.resource, options.problems)
    // Services and their endpoints decide where packets go.
    const isUrgent = ['Service', 'EndpointSlice'].includes(options.resource.kind)
    this.#retry = new LinkRetry({ ...options, isUrgent })
  }

  get isListed(): boolean {
    return this.#isListed
  }

  get isComplete(): boolean {
    return this.#known.isComplete
  }

  /**
   * Resolves with the refusal that has a final status, or with undefined when the signal has aborted. Rejects only with an error of
   * `deliver`, or a bug.
   */
  async run(): Promise<ApiError | undefined> {
    while (!this.#isStopped) {
      this.#openedAt = undefined
      this.#isAnswered = false
      const failure = await this.#attempt()
      if (this.#isStopped) break
      if (failure?.status !== undefined && this.#options.finalStatuses?.includes(failure.status) === true)
        return failure
      const reason = this.#settle(failure)
      const refusal = reason === 'relist' ? await this.#askFirst() : undefined
      if (this.#isStopped) break
      await this.#retry.wait(reason, Math.max(failure?.retryAfterMs ?? 0, refusal?.retryAfterMs ?? 0))
    }
    return undefined
  }

  get #name(): string {
    return linkNameOf(this.#options.resource)
  }

  get #isStopped(): boolean {
    return this.#options.signal.aborted
  }

  /** Makes one list, or proves that the watch may continue; then one watch. undefined: the watch ended in good order. */
  async #attempt(): Promise<ApiError | undefined> {
    return await this.#caught(async () => {
      if (this.#version !== undefined) await this.#prove(this.#version)
      else if (!this.#streamsLists) await this.#list()
      if (!this.#isStopped) await this.#watch()
    })
  }

  /** The failure of requests, if any. Rejects with other errors. */
  async #caught(requests: () => Promise<void>): Promise<ApiError | undefined> {
    try {
      await requests()
      return undefined
    } catch (error) {
      if (error instanceof ApiError) return error
      if (error instanceof FormatError || error instanceof FrameError) return this.#garbage(error.message)
      throw error
    }
  }

  /** Decides the kind of the next attempt, and returns its reason. */
  #settle(failure: ApiError | undefined): RetryReason {
    const { clock, links, log, resource } = this.#options
    const openMs = this.#openedAt === undefined ? 0 : clock.now() - this.#openedAt
    const wasSteady = openMs > steadyMs
    const losesPlace = failure !== undefined && this.#losesPlace(failure)
    // NB: not if the next attempt is a list. If all watches ended so, a list would come every few seconds.
    const resumes = wasSteady && this.#version !== undefined && !losesPlace
    if (resumes) this.#retry.noteSteadyWatch()
    if (failure === undefined) {
      if (wasSteady) return 'none'
      links.report(this.#name, { text: `${this.#name}: the server ends watches at once` })
      return 'unusable'
    }
    const wasStreamedList = this.#version === undefined && this.#streamsLists
    if (wasStreamedList && this.#refusesStreamedList(failure)) {
      this.#streamsLists = false
      log.debug('API server does not stream lists; a list is read instead', { err: failure })
      return 'none'
    }
    if (failure.code === 'connection') this.#streamsLists = true
    // The server may wait for an event that never comes, such as progress of its etcd: try the other way of listing.
    if (failure.code === 'silence') this.#streamsLists = !wasStreamedList
    if (failure.code === 'garbage' && this.#version === undefined) this.#streamsLists = !wasStreamedList
    if (resumes && (failure.code === 'silence' || failure.code === 'connection')) {
      // A quiet watch, or a connection that a device on the way has ended. The next attempt shows whether the server is there.
      log.debug('Watch is opened again', { kind: resource.kind, err: failure })
      return failure.code === 'silence' ? 'none' : 'away'
    }
    if (losesPlace) this.#leavePlace(failure)
    // A list that cannot be read may be too large as a whole: pages are smaller.
    else if (this.#version === undefined && (refusesVersion(failure) || failure.code === 'garbage'))
      this.#listFrom = latest
    if (!losesPlace || failure.code === 'garbage')
      links.report(this.#name, { text: `${this.#name}: ${failure.message}` })
    if (losesPlace) return 'relist'
    return this.#reasonOf(failure, wasSteady)
  }

  #reasonOf({ code, status = 0 }: ApiError, wasSteady: boolean): RetryReason {
    if (status === 410) return 'relist'
    if (code === 'silence' || code === 'credentials' || status === 429 || status >= 500) return 'busy'
    // A connection that breaks in the middle of an answer has cost the server work.
    return code === 'connection' && (!this.#isAnswered || wasSteady) ? 'away' : 'unusable'
  }

  #leavePlace(failure: ApiError): void {
    const { log, resource } = this.#options
    this.#isSuspect ||= failure.code === 'garbage'
    const isOtherHistory = failure.code === 'history'
    this.#listFrom = isOtherHistory ? latest : (this.#version ?? latest)
    this.#version = undefined
    if (isOtherHistory) this.#known.forgetVersions()
    const level = this.#retry.isFirstRelist ? 'info' : 'debug'
    log[level]('API server cannot resume the watch; all objects are listed again', {
      kind: resource.kind,
      err: failure,
    })
  }

  /**
   * Whether the watch cannot continue at its version. NB: true also after an event that cannot be read: its object is not known, and at
   * the same version the event may repeat without end.
   */
  #losesPlace(failure: ApiError): boolean {
    if (this.#version === undefined) return false
    return refusesVersion(failure) || (failure.code === 'garbage' && this.#openedAt !== undefined)
  }

  /** Old servers refuse by a 4xx. Servers whose etcd lacks RequestWatchProgress refuse by an event of any code after status 200. */
  #refusesStreamedList({ code, status = 0 }: ApiError): boolean {
    if (code === 'unfinished') return true
    const isFinal = this.#openedAt !== undefined || status < 500
    return code === 'status' && isFinal && !passing.includes(status)
  }

  /**
   * Asks for one object not older than the version. NB: a watch at a version that the server does not have yet is silent, without an error
   * (kubernetes#135452). Such a server was restored from a backup, or lags behind. Throws ApiError.
   */
  async #prove(version: string): Promise<void> {
    const { resource, client, random, clock } = this.#options
    const { selectors, path } = resource
    const query = { ...selectors, limit: '1', resourceVersion: version, resourceVersionMatch: 'NotOlderThan' }
    // NB: its answer does not end an outage: a server may answer lists and refuse watches.
    const answer = await client.get({ path, query, isWatch: false, spread: random() })
    const items: WireObject[] = []
    await readList(answer, resource, { clock, take: (some) => items.push(...some) })
    const isOurs = items.length > 0 ? items.every((item) => this.#known.isSame(item)) : this.#known.isEmpty
    if (isOurs) return
    const problem = 'the first object is not one that was followed'
    throw new ApiError({ code: 'history', operation: `GET ${path}`, problem })
  }

  /**
   * Takes the first objects of a relist, once until a watch was steady. Returns the failure, if any. NB: the next attempt shows whether the
   * server is there.
   */
  async #askFirst(): Promise<ApiError | undefined> {
    const { resource, client, random, clock } = this.#options
    const { first, path } = resource
    if (first === undefined || !this.#retry.isFirstRelist) return undefined
    return await this.#caught(async () => {
      const query = { ...first, ...this.#notOlder() }
      const answer = await client.get({ path, query, isWatch: false, spread: random() })
      await readList(answer, resource, { clock, take: (items) => this.#takeItems(items) })
    })
  }

  async #list(): Promise<void> {
    const { resource, client, random, clock } = this.#options
    const take = (items: readonly WireObject[]): void => this.#takeItems(items)
    this.#known.beginListing()
    let query = this.#listQuery()
    for (;;) {
      const { selectors, path } = resource
      const answer = await client.get({
        path,
        query: { ...selectors, ...query },
        isWatch: false,
        spread: random(),
      })
      this.#noteStatus()
      const { version, continueToken } = await readList(answer, resource, { clock, take })
      if (this.#isStopped) return
      if (continueToken === '') return this.#finishListing(version)
      if (continueToken === query['continue']) throw this.#garbage('a page that leads to itself')
      query = { limit: pageSize, continue: continueToken }
    }
  }

  /**
   * NB: a list without a version costs the server a question to etcd, and one with a limit and a version other than 0 may do so. The
   * others come from its memory (k8s.io/apiserver storage/cacher).
   */
  #listQuery(): Readonly<Record<string, string>> {
    const { limit, resourceVersion } = { limit: pageSize, resourceVersion: this.#listFrom }
    if (resourceVersion === latest) return { limit }
    if (resourceVersion === anyVersion) return { limit, resourceVersion }
    return this.#notOlder()
  }

  #notOlder(): Readonly<Record<string, string>> {
    if (this.#listFrom === latest) return {}
    return { resourceVersion: this.#listFrom, resourceVersionMatch: 'NotOlderThan' }
  }

  #takeItems(items: readonly WireObject[]): void {
    if (this.#isStopped) return
    const events: ObjectEvent[] = []
    for (const item of items) {
      const event = this.#known.take(item)
      if (event !== undefined) events.push(event)
    }
    if (events.length > 0) this.#options.deliver(events)
  }

  /** Ends a listing: delivers the deletions, and sets the version at which the watch begins. */
  #finishListing(version: string): void {
    if (version === '') throw this.#garbage('a list without a resourceVersion')
    const gone = this.#known.endListing()
    if (gone.length > 0) this.#options.deliver(gone)
    this.#version = version
    this.#isListed = true
    this.#noteAnswer()
    this.#options.progressed()
  }

  #noteStatus(): void {
    this.#isAnswered = true
    this.#retry.noteAnswer()
  }

  #noteAnswer(): void {
    this.#retry.noteSuccess()
    if (!this.#isSuspect) this.#options.links.report(this.#name, undefined)
  }

  async #watch(): Promise<void> {
    const { client, clock, resource, random, progressed } = this.#options
    const isListing = this.#version === undefined
    const { path } = resource
    const { least, spread } = watchSeconds
    const seconds = Math.floor(least + spread * random())
    const query = this.#watchQuery(seconds)
    const endsAfterMs = seconds * 1000
    const answer = await client.get({ path, query, isWatch: true, endsAfterMs, spread: random() })
    this.#noteStatus()
    this.#openedAt = clock.now()
    if (isListing) this.#known.beginListing()
    else progressed()
    await this.#followSteadily(answer)
    if (this.#version === undefined && !this.#isStopped) {
      const problem = 'the streamed list ended before its end'
      throw new ApiError({ code: 'unfinished', operation: `GET ${resource.path}`, problem })
    }
  }

  /** A watch that stays open shows that the server is reachable, even without events. */
  async #followSteadily(answer: ApiAnswer): Promise<void> {
    const cancel = this.#options.clock.schedule(steadyMs, () => {
      this.#isSuspect = false
      if (this.#version !== undefined) this.#noteAnswer()
    })
    try {
      await this.#follow(answer)
    } finally {
      cancel()
    }
  }

  #watchQuery(seconds: number): Readonly<Record<string, string>> {
    const query = {
      ...this.#options.resource.selectors,
      watch: 'true',
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(seconds),
    }
    if (this.#version !== undefined) return { ...query, resourceVersion: this.#version }
    return { ...query, sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' }
  }

  async #follow({ chunks, expectSilence, format, errorOf }: ApiAnswer): Promise<void> {
    const splitter = format.openSplitter()
    const turns = new Turns(this.#options.clock)
    if (this.#version !== undefined) expectSilence()
    for await (const chunk of chunks) {
      if (this.#isStopped) return
      const events: ObjectEvent[] = []
      try {
        for (const frame of splitter.push(chunk)) {
          const event = format.readEvent(frame, this.#options.resource)
          if (event.type === 'ERROR') throw errorOf(event.status)
          this.#takeEvent(event, events)
        }
      } finally {
        // Events before a wrong one are delivered, no matter where the chunks were cut.
        if (events.length > 0) this.#options.deliver(events)
      }
      if (this.#version !== undefined) expectSilence()
      this.#options.progressed()
      if (turns.isOver) await turns.next()
    }
    if (!this.#isStopped) splitter.end()
  }

  #takeEvent(event: Exclude<WatchEvent, { type: 'ERROR' }>, events: ObjectEvent[]): void {
    this.#noteAnswer()
    const version = versionOf(event.object)
    if (event.type === 'BOOKMARK' && this.#version === undefined && endsInitialEvents(event.object)) {
      // Existing objects are delivered before deletions.
      this.#options.deliver(events.splice(0))
      return this.#finishListing(version)
    }
    if (event.type !== 'BOOKMARK') {
      if (this.#version !== undefined && !isNamed(event.object))
        throw this.#garbage('an object without a name')
      const change =
        event.type === 'DELETED' ? this.#known.remove(event.object) : this.#known.take(event.object)
      if (change !== undefined) events.push(change)
    }
    // NB: the versions of objects in a streamed list have no order.
    if (this.#version !== undefined && version !== '') this.#version = version
  }

  #garbage(problem: string): ApiError {
    return new ApiError({ code: 'garbage', operation: `GET ${this.#options.resource.path}`, problem })
  }
}

// Statuses for too many requests or missing rights. They do not show what the server supports.
const passing = [401, 403, 408, 410, 429]

/** 410: compacted. Other 4xx: not a version. History: newer than the server's, as after a restored etcd; or of another cluster. */
function refusesVersion({ code, status = 0 }: ApiError): boolean {
  return code === 'history' || status === 410 || (status >= 400 && status < 500 && !passing.includes(status))
}
