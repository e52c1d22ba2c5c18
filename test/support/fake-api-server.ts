// A fake API server: lists, pages, watches, bookmarks, streamed lists, both encodings, Events, tokens, TLS, and faults on command.
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import type { Document, Kind } from './api-shapes.js'
import { protobufWriter, type ApiWriter } from './api-writer.js'
import type { Certificate } from './certificates.js'
import { FakeApiListener, type ListenerOptions } from './fake-api-listener.js'
import { FakeEvents } from './fake-events.js'
import { FakeApiStore, selectorOf, type Selector, type StoredChange } from './fake-api-store.js'

const kinds: Readonly<Record<string, Kind>> = {
  '/api/v1/services': 'Service',
  '/apis/discovery.k8s.io/v1/endpointslices': 'EndpointSlice',
  '/api/v1/nodes': 'Node',
  '/apis/networking.k8s.io/v1/servicecidrs': 'ServiceCIDR',
  '/apis/networking.k8s.io/v1beta1/servicecidrs': 'ServiceCIDR',
}

const AccessReview = Type.Object({
  spec: Type.Object({ resourceAttributes: Type.Object({ verb: Type.String(), resource: Type.String() }) }),
})
const reviewPath = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
const nodePath = '/api/v1/nodes/'

const forbiddenNodes = { code: 403, reason: 'Forbidden', message: 'nodes is forbidden' }
const unauthorized = { code: 401, reason: 'Unauthorized', message: 'Unauthorized' }

/** A wrong answer of the server to requests for a kind. */
export type Fault =
  /** The server closes the connection without an answer. */
  | { readonly type: 'hang-up' }
  /** The server never answers the request. */
  | { readonly type: 'silence' }
  | {
      readonly type: 'status'
      readonly status: Document
      readonly retryAfter?: string
      readonly date?: string
    }
  /** Status 200 and this body. */
  | {
      readonly type: 'body'
      readonly contentType: string
      readonly contentEncoding?: 'gzip'
      readonly body: Buffer
      readonly truncated?: boolean
    }
  /** Watches only: status 200, then these bytes, then the end of the stream. */
  | { readonly type: 'stream'; readonly bytes: Buffer }
  /** Watches only: status 200, then one ERROR event. */
  | { readonly type: 'error-event'; readonly status: Document }

export interface FakeApiOptions extends ListenerOptions {
  /** The address to listen on. Default: 127.0.0.1. */
  readonly address?: string
  /** The Authorization header that each request must have. */
  readonly authorization?: string
  readonly writer?: ApiWriter
  readonly gzip?: boolean
  /** Streamed lists. `old`: refused with status 422. `late`: refused with an event after status 200. `stuck`: without objects and end. */
  readonly streamedLists?: 'old' | 'late' | 'stuck' | 'yes'
  /** Lists at version 0 come whole, from the server's memory. Default: true. */
  readonly hasWatchCache?: boolean
  /** The versions of networking.k8s.io that have ServiceCIDRs. Default: v1. */
  readonly serviceCidrs?: readonly ('v1' | 'v1beta1')[]
  /** `VERB RESOURCE` that a SelfSubjectAccessReview does not allow. */
  readonly denied?: readonly string[]
  /** The account may not read other Nodes: requests must select one Node by its name. */
  readonly isOwnNodeOnly?: boolean
  /** How far the header Date is from this machine's clock. */
  readonly dateOffsetMs?: number
  /** Open watches do not send changes of the store. */
  readonly hidesChanges?: boolean
}

interface Watch {
  readonly kind: Kind
  readonly selects: Selector
  readonly response: ServerResponse
  /** The watch gets later changes only, also if the store does not have this version yet, as of the real server. */
  readonly from: number
}

export class FakeApiServer {
  readonly store = new FakeApiStore()
  readonly events = new FakeEvents()
  /** The answer to the next writes of Events; undefined: they succeed. */
  eventFault: Fault | undefined
  /** `Service list`, `Service list from 500`, `Service list since 7`, `EndpointSlice first since 7`,
   * `Service check from 7`, `Service watch from 7`, `Service stream`, in order of arrival. */
  readonly requests: string[] = []
  /** The query of each request. */
  readonly queries: URLSearchParams[] = []
  /** The headers of each request. */
  readonly headers: IncomingHttpHeaders[] = []
  /** The name in the client certificate of each request. */
  readonly clients: string[] = []
  options: FakeApiOptions
  /** Called after each request and each end of a watch. */
  onChange: () => void = () => undefined
  #listener: FakeApiListener
  readonly #watches = new Set<Watch>()
  readonly #faults = new Map<string, Fault>()

  constructor(options: FakeApiOptions = {}) {
    this.options = options
    this.#listener = this.#openListener()
    this.store.listen((change) => {
      if (this.options.hidesChanges === true) return
      for (const watch of this.#watches) this.#send(watch, change)
    })
  }

  /** `port` 0: any free port. */
  async listen(port = 0): Promise<void> {
    this.#listener = this.#openListener()
    await this.#listener.listen(port, this.options.address ?? '127.0.0.1')
  }

  /** Stops listening and closes every connection. */
  async close(): Promise<void> {
    await this.#listener.close()
  }

  get port(): number {
    return this.#listener.port
  }

  get url(): URL {
    const { certificate, address = '127.0.0.1' } = this.options
    const host = address === '::1' ? `[${address}]` : address
    return new URL(`http${certificate === undefined ? '' : 's'}://${host}:${this.port}`)
  }

  /** Ports of the clients' connections. */
  get openConnections(): readonly number[] {
    return this.#listener.openConnections
  }

  /** Connections of HTTP/2. */
  get openSessions(): number {
    return this.#listener.openSessions
  }

  get openWatches(): number {
    return this.#watches.size
  }

  /** Uses this certificate for new connections. */
  useCertificate(certificate: Certificate): void {
    this.#listener.useCertificate(this.options, certificate)
  }

  /**
   * Sets the fault for later requests; undefined ends it. `only` limits it to lists or to watches (streamed lists are watches). Without it,
   * checks fail as well, unless the fault is for watches only.
   */
  setFault(kind: Kind, fault: Fault | undefined, only: 'list' | 'first' | 'watch' | 'all' = 'all'): void {
    const isOfWatches = fault?.type === 'stream' || fault?.type === 'error-event'
    const all = isOfWatches ? ['list', 'watch'] : ['list', 'first', 'watch', 'check']
    for (const verb of only === 'all' ? all : [only]) {
      if (fault === undefined) this.#faults.delete(`${kind} ${verb}`)
      else this.#faults.set(`${kind} ${verb}`, fault)
    }
  }

  dropConnections(): void {
    this.#listener.dropConnections()
  }

  /** HTTP/2: the open connections take no further request; those that are under way go on. */
  goAway(): void {
    this.#listener.goAway()
  }

  /** Ends the watches of a kind, like a server at the end of timeoutSeconds. */
  endWatches(kind: Kind): void {
    for (const watch of this.#watches) if (watch.kind === kind) watch.response.end()
  }

  /** Sends these bytes to the watches of a kind. `cut`: then breaks the connections. */
  sendBytes(kind: Kind, bytes: Buffer, cut = false): void {
    for (const { kind: watched, response } of this.#watches) {
      if (watched !== kind) continue
      response.write(bytes, () => {
        if (cut) response.destroy()
      })
    }
  }

  sendBookmark(kind: Kind): void {
    this.sendBytes(kind, this.#writer.event('BOOKMARK', kind, { metadata: this.#bookmark }))
  }

  /** Sends an event without a change of the store. */
  sendEvent(type: string, kind: Kind | 'Status', object: Document, to: Kind): void {
    this.sendBytes(to, this.#writer.event(type, kind, object))
  }

  get #writer(): ApiWriter {
    return this.options.writer ?? protobufWriter
  }

  get #bookmark(): Document {
    return { resourceVersion: String(this.store.version) }
  }

  #openListener(): FakeApiListener {
    return new FakeApiListener(
      this.options,
      (request, response) => this.#serve(request, response),
      () => this.onChange(),
    )
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://fake')
    if (FakeEvents.isPath(url.pathname)) return void this.#serveEvent(request, url.pathname, response)
    const { dateOffsetMs = 0 } = this.options
    if (dateOffsetMs !== 0) response.setHeader('date', new Date(Date.now() + dateOffsetMs).toUTCString())
    if (url.pathname === reviewPath) return void this.#serveReview(request, response)
    if (url.pathname.startsWith(nodePath)) return this.#serveNode(request, url.pathname, response)
    const query = url.searchParams
    const kind = this.#kindAt(url.pathname)
    if (kind === undefined) return this.#refuse(response, { code: 404, reason: 'NotFound' })
    const isWatch = query.get('watch') === 'true'
    this.requests.push(`${kind} ${describe(query)}`)
    this.queries.push(query)
    this.headers.push(request.headers)
    if (this.#isAuthorized(request)) this.#answer({ kind, query, isWatch }, response)
    else this.#refuse(response, unauthorized)
    this.onChange()
  }

  async #serveReview(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const document = Value.Parse(AccessReview, JSON.parse(await textOf(request)))
    if (!this.#isAuthorized(request)) return this.#refuse(response, unauthorized)
    const { verb, resource } = document.spec.resourceAttributes
    const allowed = !(this.options.denied ?? []).includes(`${verb} ${resource}`)
    response.writeHead(201, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ ...document, status: { allowed } }))
  }

  #serveNode(request: IncomingMessage, path: string, response: ServerResponse): void {
    if (!this.#isAuthorized(request)) return this.#refuse(response, unauthorized)
    const name = decodeURIComponent(path.slice(nodePath.length))
    const [node] = this.store.list('Node', ({ metadata }) => Object(metadata)['name'] === name)
    // In JSON, for which the doctor asks.
    const document = node === undefined ? { kind: 'Status', code: 404 } : { kind: 'Node', ...node }
    response.writeHead(node === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(document))
  }

  /** undefined: this server has no such resource. */
  #kindAt(path: string): Kind | undefined {
    const { serviceCidrs = ['v1'] } = this.options
    const kind = kinds[path]
    const isServed = kind !== 'ServiceCIDR' || serviceCidrs.some((version) => path.includes(`/${version}/`))
    return isServed ? kind : undefined
  }

  /** undefined: the newest one. */
  #apiVersionOf(kind: Kind): string | undefined {
    const [version = 'v1'] = this.options.serviceCidrs ?? []
    return kind === 'ServiceCIDR' ? `networking.k8s.io/${version}` : undefined
  }

  async #serveEvent(request: IncomingMessage, path: string, response: ServerResponse): Promise<void> {
    const { method = '', headers } = request
    const contentType = headers['content-type'] ?? ''
    const event = this.events.note({ method, path, contentType, text: await textOf(request) })
    if (!this.#isAuthorized(request)) this.#refuse(response, unauthorized)
    else if (this.eventFault !== undefined) this.#fail(this.eventFault, response)
    else {
      const { code, body } = this.events.answer(event)
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    this.onChange()
  }

  #isAuthorized({ socket, headers }: IncomingMessage): boolean {
    const { authorization, clientAuthorities } = this.options
    if (clientAuthorities !== undefined && !this.#knowsClient(socket)) return false
    return authorization === undefined || headers.authorization === authorization
  }

  #knowsClient(socket: Socket): boolean {
    if (!(socket instanceof TLSSocket) || !socket.authorized) return false
    this.clients.push(String(socket.getPeerCertificate().subject.CN))
    return true
  }

  #answer(
    { kind, query, isWatch }: { kind: Kind; query: URLSearchParams; isWatch: boolean },
    response: ServerResponse,
  ): void {
    const isForbidden = kind === 'Node' && query.get('fieldSelector')?.startsWith('metadata.name=') !== true
    if (this.options.isOwnNodeOnly === true && isForbidden) return this.#refuse(response, forbiddenNodes)
    const version = query.get('resourceVersion')
    const verb = isWatch ? 'watch' : isCheck(query) ? 'check' : isFirst(query) ? 'first' : 'list'
    const fault = this.#faults.get(`${kind} ${verb}`)
    if (fault !== undefined) return this.#fail(fault, response)
    if (!isWatch && Number(version) > this.store.version) return this.#refuseLarge(response)
    if (!isWatch) return this.#list(kind, query, response)
    if (version === null) return this.#streamList(kind, query, response)
    const changes = this.store.changesSince(Number(version))
    if (changes === undefined) return this.#sendExpired(response)
    const watch = this.#openWatch(kind, query, response)
    for (const change of changes) this.#send(watch, change)
  }

  #list(kind: Kind, query: URLSearchParams, response: ServerResponse): void {
    const all = this.store.list(kind, selectorOf(query))
    const { hasWatchCache = true } = this.options
    const isFromCache = hasWatchCache && query.get('resourceVersion') === '0'
    const limit = isFromCache ? all.length : Number(query.get('limit') ?? all.length)
    const [from, version] = (query.get('continue') ?? `0@${this.store.version}`).split('@').map(Number)
    if (from === undefined || version === undefined || this.store.changesSince(version) === undefined) {
      return this.#refuse(response, {
        code: 410,
        reason: 'Expired',
        message: 'the continue token is too old',
      })
    }
    const next = from + limit
    const page = { resourceVersion: String(version), continue: next < all.length ? `${next}@${version}` : '' }
    const body = this.#writer.list(kind, all.slice(from, next), page, this.#apiVersionOf(kind))
    const { gzip = false } = this.options
    response.writeHead(200, {
      'content-type': this.#writer.type,
      ...(gzip ? { 'content-encoding': 'gzip' } : {}),
    })
    response.end(gzip ? gzipSync(body) : body)
  }

  #streamList(kind: Kind, query: URLSearchParams, response: ServerResponse): void {
    const { streamedLists = 'yes' } = this.options
    if (streamedLists === 'old') {
      const message = 'sendInitialEvents: Forbidden: unless the WatchList feature gate is enabled'
      return this.#refuse(response, { code: 422, reason: 'Invalid', message })
    }
    if (streamedLists === 'late') {
      const message = 'the required storage feature RequestWatchProgress is disabled'
      return this.#fail({ type: 'error-event', status: { code: 500, message } }, response)
    }
    const watch = this.#openWatch(kind, query, response)
    if (streamedLists === 'stuck') return
    for (const object of this.store.list(kind, watch.selects)) {
      response.write(this.#writer.event('ADDED', kind, object, this.#apiVersionOf(kind)))
    }
    const metadata = { ...this.#bookmark, annotations: { 'k8s.io/initial-events-end': 'true' } }
    response.write(this.#writer.event('BOOKMARK', kind, { metadata }, this.#apiVersionOf(kind)))
  }

  #openWatch(kind: Kind, query: URLSearchParams, response: ServerResponse): Watch {
    const watch = {
      kind,
      selects: selectorOf(query),
      response,
      from: Number(query.get('resourceVersion') ?? 0),
    }
    this.#watches.add(watch)
    response.on('close', () => {
      this.#watches.delete(watch)
      this.onChange()
    })
    response.writeHead(200, { 'content-type': this.#writer.watchType })
    response.flushHeaders()
    return watch
  }

  /** As the real server: an object that no longer matches is DELETED, an object that begins to match is ADDED. */
  #send({ kind, selects, response, from }: Watch, change: StoredChange): void {
    if (change.kind !== kind || change.version <= from) return
    const before = change.before !== undefined && selects(change.before)
    const after = change.after !== undefined && selects(change.after)
    if (!before && !after) return
    const type = !after ? 'DELETED' : before ? 'MODIFIED' : 'ADDED'
    const object = (after ? change.after : change.before) ?? {}
    const metadata = { ...Object(object['metadata']), resourceVersion: String(change.version) }
    response.write(this.#writer.event(type, kind, { ...object, metadata }, this.#apiVersionOf(kind)))
  }

  /** As kube-apiserver (k8s.io/apiserver storage.NewTooLargeResourceVersionError). */
  #refuseLarge(response: ServerResponse): void {
    const causes = [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }]
    const message = `Too large resource version, current: ${this.store.version}`
    const details = { retryAfterSeconds: 1, causes }
    this.#refuse(response, { code: 504, reason: 'Timeout', message, details })
  }

  #sendExpired(response: ServerResponse): void {
    const status = { code: 410, reason: 'Expired', message: 'too old resource version' }
    this.#fail({ type: 'error-event', status }, response)
  }

  #refuse(response: ServerResponse, status: Document, headers: Record<string, string> = {}): void {
    response.writeHead(Number(status['code']), { 'content-type': this.#writer.type, ...headers })
    response.end(this.#writer.status(status))
  }

  #fail(fault: Fault, response: ServerResponse): void {
    switch (fault.type) {
      case 'hang-up':
        return void response.socket?.destroy()
      case 'silence':
        return
      case 'status':
        return this.#refuse(response, fault.status, {
          ...(fault.retryAfter === undefined ? {} : { 'retry-after': fault.retryAfter }),
          ...(fault.date === undefined ? {} : { date: fault.date }),
        })
      case 'body': {
        const { body, contentType, contentEncoding, truncated = false } = fault
        response.writeHead(200, {
          'content-type': contentType,
          ...(contentEncoding === undefined ? {} : { 'content-encoding': contentEncoding }),
          'content-length': body.length + (truncated ? 1 : 0),
        })
        return void response.write(body, () => (truncated ? response.destroy() : response.end()))
      }
      case 'stream':
        response.writeHead(200, { 'content-type': this.#writer.watchType })
        return void response.end(fault.bytes)
      case 'error-event':
        response.writeHead(200, { 'content-type': this.#writer.watchType })
        response.end(this.#writer.event('ERROR', 'Status', fault.status))
    }
  }
}

/** Whether the request only asks whether the server has a version. */
function isCheck(query: URLSearchParams): boolean {
  return query.get('limit') === '1'
}

/** The short list of some backends before a list of all. */
function isFirst(query: URLSearchParams): boolean {
  return query.get('labelSelector')?.includes(' in (') === true
}

function describe(query: URLSearchParams): string {
  const token = query.get('continue')
  const version = query.get('resourceVersion')
  if (query.get('watch') !== 'true') {
    if (isCheck(query)) return `check from ${version}`
    if (isFirst(query)) return `first since ${version}`
    if (version !== null && version !== '0') return `list since ${version}`
    return token === null ? 'list' : `list from ${token.split('@')[0]}`
  }
  return version === null ? 'stream' : `watch from ${version}`
}
