// An EventSender on a fake API server, with a clock that tests move.
import { nodeReference, serviceReference, type EventReport } from '../../src/event.js'
import { EventSender } from '../../src/events/index.js'
import { type EventSenderOptions } from '../../src/events/testing.js'
import { openLog } from '../../src/log.js'
import { masterOptions } from '../../src/api/client-options.js'
import { documentOf, type Document } from './api-shapes.js'
import { FakeApiServer, type FakeApiOptions, type Fault } from './fake-api-server.js'
import { HandClock } from './kubernetes-lab.js'

export const starting: EventReport = {
  type: 'Normal',
  reason: 'Starting',
  action: 'StartKubeProxy',
  regarding: nodeReference('node-a'),
  note: '',
}

/** A Service that lost a frontend. */
export function lost(name: string, note = 'taken'): EventReport {
  const regarding = serviceReference('shop', name)
  return { type: 'Warning', reason: 'FrontendConflict', action: 'Sync', regarding, note }
}

export function statusFault(code: number, retryAfter?: string): Fault {
  return { type: 'status', status: { code }, ...(retryAfter === undefined ? {} : { retryAfter }) }
}

export class EventLab {
  readonly server: FakeApiServer
  readonly clock = new HandClock(() => this.#wake())
  readonly log: string[] = []
  readonly results: Record<'sent' | 'failed' | 'overflow', number> = { sent: 0, failed: 0, overflow: 0 }
  readonly #opened: EventSender[] = []
  #wake: () => void = () => undefined

  constructor(options: FakeApiOptions = {}) {
    this.server = new FakeApiServer(options)
    this.server.onChange = () => this.#wake()
  }

  async start(): Promise<void> {
    await this.server.listen()
  }

  /** Opens a sender of node-a without a request limit. `options` replace the defaults, such as the server. */
  open(options: Partial<EventSenderOptions> = {}): EventSender {
    const destination = { write: (line: string) => this.#note(line) }
    const sender = new EventSender({
      client: masterOptions(this.server.url.href),
      nodeName: 'node-a',
      limit: { qps: -1, burst: 0 },
      clock: this.clock,
      random: () => 0,
      log: openLog({ format: 'json', verbosity: 2, destination, clock: { unixMs: () => 0 } }),
      metrics: {
        apiEvent: (result) => {
          this.results[result] += 1
          this.#wake()
        },
      },
      ...options,
    })
    this.#opened.push(sender)
    return sender
  }

  /** `POST shop`, `PATCH shop/web.18…`: each request so far, without the timestamp in names. */
  get requests(): readonly string[] {
    return this.server.events.requests.map(
      ({ method, target }) => `${method} ${target.replace(/\.[0-9a-f]+$/, '')}`,
    )
  }

  /** Names of the objects about which Events are stored, with the counts of the Events. */
  get stored(): readonly string[] {
    return [...this.server.events.stored.values()].map((event) => {
      const { count = 1 } = documentOf(event['series'])
      return `${String(documentOf(event['regarding'])['name'])} x${String(count)}`
    })
  }

  storedEvent(index: number): Document {
    return [...this.server.events.stored.values()][index] ?? {}
  }

  /** Log lines of the sender about Events that it could not send. */
  get sendingLines(): readonly string[] {
    return this.log.filter((line) => /^(Events are|An Event was|No such Event) /u.test(line))
  }

  /** Waits for requests, answers, timers and log lines until the condition holds. */
  async until(isThere: () => boolean): Promise<void> {
    while (!isThere()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  async untilSent(count: number): Promise<void> {
    await this.until(() => this.results.sent === count)
  }

  /** Waits until a timer with this delay is set, and fires it. */
  async fire(delayMs: number): Promise<void> {
    await this.until(() => this.clock.count(delayMs) > 0)
    this.clock.fire(delayMs)
  }

  async close(): Promise<void> {
    for (const sender of this.#opened) await sender.stop(0)
    await this.server.close()
  }

  #note(line: string): void {
    const { msg }: { msg: string } = JSON.parse(line)
    this.log.push(msg)
    this.#wake()
  }
}
