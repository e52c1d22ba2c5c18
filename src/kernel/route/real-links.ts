import type { Addon, RawRouteSocket } from '../addon.js'
import type { Link, Links, LinkWatch } from './links.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import { decodeEvents, decodeLinks } from './cursors.js'
import { EventWatch, Watches } from '../watches.js'

/** The network interfaces of the running kernel. */
export class RealLinks implements Links {
  readonly #addon: () => Addon
  readonly #queue: RequestQueue<RawRouteSocket>
  readonly #watches = new Watches('route')

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
    return new EventWatch(
      this.#watches.open(() => new (this.#addon().RouteEvents)()),
      decodeEvents,
    )
  }

  async close(): Promise<void> {
    await this.#watches.close()
    await this.#queue.close()
  }
}
