import type { Addon, RawRouteEvents, RawRouteSocket } from '../addon.js'
import type { Link, LinkEvent, Links, LinkWatch } from './links.js'
import { type CallCounts, closedError, RequestQueue, toKernelError } from '../request-queue.js'
import { decodeEvents, decodeLinks } from './cursors.js'
import { wakeAtExit } from '../wake-at-exit.js'

/** The network interfaces of the running kernel. */
export class RealLinks implements Links {
  readonly #addon: () => Addon
  readonly #queue: RequestQueue<RawRouteSocket>
  /** The open watches. */
  readonly #watches = new Set<RealLinkWatch>()
  #isClosed = false

  constructor(addon: () => Addon, calls: CallCounts) {
    this.#addon = addon
    this.#queue = new RequestQueue(() => new (addon().RouteSocket)(), 'route', calls)
  }

  async list(): Promise<readonly Link[]> {
    return decodeLinks(await this.#queue.run((socket) => socket.dumpLinks()))
  }

  async find(name: string): Promise<Link | undefined> {
    return (await this.list()).find((link) => link.name === name)
  }

  async addDummy(name: string): Promise<Link> {
    const index = await this.#queue.run((socket) => socket.addDummy(name), { object: name })
    return { name, index, kind: 'dummy', isUp: false }
  }

  setUp(index: number): Promise<void> {
    return this.#queue.run((socket) => socket.setUp(index), { object: `interface ${index}` })
  }

  remove(index: number): Promise<void> {
    return this.#queue.run((socket) => socket.removeLink(index), { object: `interface ${index}` })
  }

  watch(): LinkWatch {
    if (this.#isClosed) throw closedError('route')
    const watch = new RealLinkWatch(this.#addon, () => this.#watches.delete(watch))
    this.#watches.add(watch)
    return watch
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#watches].map((watch) => watch.close()))
    await this.#queue.close()
  }
}

class RealLinkWatch implements LinkWatch {
  readonly #queue: RequestQueue<RawRouteEvents>
  readonly #events: RawRouteEvents
  readonly #forget: () => void
  readonly #endWake: () => void
  #isClosed = false

  constructor(addon: () => Addon, forget: () => void) {
    this.#forget = forget
    // Open now, not with the first next(): the kernel queues the events in between.
    const events = openEvents(addon)
    this.#events = events
    this.#endWake = wakeAtExit(events)
    this.#queue = new RequestQueue(() => events, 'route')
  }

  async next(): Promise<readonly LinkEvent[] | undefined> {
    while (!this.#isClosed) {
      // An empty result only interrupts the wait.
      const records = await this.#queue
        .run((events) => events.next())
        .catch((error: unknown) => {
          if (this.#isClosed) return new Uint8Array(0)
          throw error
        })
      if (records.length > 0 && !this.#isClosed) return decodeEvents(records)
    }
    return undefined
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#events.close() // ends the wait in flight; idempotent
    this.#endWake()
    this.#forget()
  }
}

/** Throws KernelError. */
function openEvents(addon: () => Addon): RawRouteEvents {
  try {
    return new (addon().RouteEvents)()
  } catch (error) {
    throw toKernelError(error, 'route')
  }
}
