import type { IpFamily } from '../address.js'
import type { Addon, RawConntrackSocket } from './addon.js'
import type { Conntrack, ConntrackFrontend, ConntrackOutcome } from './conntrack.js'
import { encodeFrontends } from './conntrack-encode.js'
import { addressFamily } from './records.js'
import { type CallCounts, RequestQueue } from './request-queue.js'

/** The table of connections of the kernel that we run on. */
export class RealConntrack implements Conntrack {
  readonly #queue: RequestQueue<RawConntrackSocket>

  constructor(addon: () => Addon, calls: CallCounts) {
    this.#queue = new RequestQueue(() => new (addon().ConntrackSocket)(), 'conntrack', calls)
  }

  deleteStale(family: IpFamily, frontends: readonly ConntrackFrontend[]): Promise<ConntrackOutcome> {
    const records = encodeFrontends(frontends)
    return this.#queue.run(
      async (socket) => {
        const { frontends: asked, backends } = records
        const { seen, isFiltered, deleted } = await socket.deleteStale(addressFamily[family], asked, backends)
        return { seen: isFiltered ? undefined : seen, deleted }
      },
      { family },
    )
  }

  close(): Promise<void> {
    return this.#queue.close()
  }
}
