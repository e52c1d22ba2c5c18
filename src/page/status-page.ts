// The status page: its paths, its headers, and who may read it.
import type { Clock } from '../clock.js'
import { type Inspected, passSnapshot, ServiceFinder, status } from '../inspect/index.js'
import {
  type Page,
  type PagedServer,
  type PageRequest,
  type Pages,
  type Reply,
  text,
} from '../server/index.js'
import { parseIpAddress } from '../address.js'
import { icon, script, style } from './assets.js'
import { render } from './render.js'
import { Samples } from './samples.js'
import { clientLimit, Watchers } from './watchers.js'

interface StatusPageOptions {
  readonly inspected: Inspected
  readonly clock: Pick<Clock, 'every' | 'schedule'>
}

/** No inline script or style, nothing from other hosts, no frames. */
const headers: Readonly<Record<string, string>> = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
}

const shownPasses = 20
/** Requests for the page that may wait for their turn. After a change, all clients of /ui/events ask at once. */
const mostWaiting = clientLimit + 8
/** Before the page of a request that waited: other work of the agent gets this time. */
const restMs = 50
/** Longest text of a search. */
const longestQuery = 253

/** The page /ui, read-only. It keeps samples from `start` to `stop`. */
export class StatusPage implements PagedServer {
  readonly pages: Pages
  readonly #options: StatusPageOptions
  readonly #finder: ServiceFinder
  readonly #samples: Samples
  readonly #watchers: Watchers
  #cancel: () => void = () => {}
  #waiting = 0
  #turn: Promise<void> = Promise.resolve()

  constructor(options: StatusPageOptions) {
    const { inspected, clock } = options
    this.#options = options
    this.#finder = new ServiceFinder(inspected)
    this.#samples = new Samples(inspected)
    this.#watchers = new Watchers({ stamp: () => `${this.#samples.taken} ${stampOf(inspected)}`, clock })
    this.pages = new Map<string, Page>([
      ['/ui', this.#guarded(async (request) => await this.#inTurn(request))],
      ['/ui/events', this.#guarded((request) => this.#events(request))],
      ['/ui/style.css', this.#guarded(() => ok('text/css; charset=utf-8', style))],
      ['/ui/app.js', this.#guarded(() => ok('text/javascript; charset=utf-8', script))],
      ['/ui/icon.svg', this.#guarded(() => ok('image/svg+xml', icon))],
    ])
  }

  async start(): Promise<void> {
    this.#cancel = this.#samples.start(this.#options.clock)
    await Promise.resolve()
  }

  async stop(): Promise<void> {
    this.#cancel()
    await Promise.resolve()
  }

  /** The page for GET requests with one of this node's hosts; 421 for other hosts. */
  #guarded(page: Page): Page {
    return async (request) => {
      const { method, host } = request
      if (!isOwnHost(host, this.#options.inspected.node.facts.name))
        return text("use an IP address, localhost or the node's name as the host\n", 421)
      if (method !== 'GET') return text('only GET\n', 405)
      const reply = await page(request)
      return { ...reply, headers }
    }
  }

  /** One page is made at a time, so that many clients delay the sync no more than one does. */
  async #inTurn(request: PageRequest): Promise<Reply> {
    if (this.#waiting === mostWaiting) return text('too many requests\n', 503)
    const hasOthers = this.#waiting++ > 0
    const made = this.#turn.then(async () => {
      if (hasOthers) await this.#rest()
      return request.signal.aborted ? text('', 503) : await this.#page(request)
    })
    this.#turn = made.then(
      () => {},
      () => {},
    )
    try {
      return await made
    } finally {
      this.#waiting--
    }
  }

  async #rest(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#options.clock.schedule(restMs, resolve)
    })
  }

  async #page({ query }: PageRequest): Promise<Reply> {
    const search = (query.get('q') ?? '').trim().slice(0, longestQuery)
    const wanted = Number(query.get('page') ?? '1')
    const { inspected } = this.#options
    const body = render({
      status: await status(inspected),
      nowMs: inspected.clock.unixMs(),
      found: await this.#finder.find(search, Number.isSafeInteger(wanted) ? wanted : 1),
      search,
      samples: await this.#samples.lastHour(),
      passes: inspected.synchronizer.passes.slice(-shownPasses).map(passSnapshot),
    })
    return ok('text/html; charset=utf-8', body)
  }

  #events({ signal }: PageRequest): Reply {
    if (this.#watchers.isFull) return text('too many clients\n', 503)
    return { ...ok('text/event-stream', ''), body: this.#watchers.open(signal) }
  }
}

function ok(contentType: string, body: string): Reply {
  return { status: 200, contentType, body }
}

/** A text that differs after a pass and after a change of health or problems. */
function stampOf({ synchronizer, problems }: Inspected): string {
  const families = synchronizer.views.map(({ health, isInForce, hasRefusals, passes }) => [
    health.isHealthy,
    isInForce,
    hasRefusals,
    passes.at(-1)?.startSeconds,
  ])
  return JSON.stringify([families, problems().map(({ line }) => line)])
}

/**
 * Whether a request with this header Host may get the page: the host is an IP address, `localhost` or the node's name. A web site that
 * lets its own name resolve to this node's address (DNS rebinding) has another host, and its scripts must not read the page.
 */
export function isOwnHost(host: string | undefined, nodeName: string): boolean {
  const parts = /^(?:\[(?<bracketed>[^\]]*)\]|(?<bare>[^:]*))(?::\d{1,5})?$/u.exec(host ?? '')?.groups
  if (parts === undefined) return false
  const { bracketed, bare = '' } = parts
  if (bracketed !== undefined) return parseIpAddress(bracketed) !== undefined
  const name = bare.toLowerCase()
  return name === 'localhost' || name === nodeName.toLowerCase() || parseIpAddress(name) !== undefined
}
