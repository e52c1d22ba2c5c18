import type { IpAddress, IpFamily } from '../../address.js'
import type { Addon, RawConntrackSocket } from '../addon.js'
import type {
  Conntrack,
  ConntrackFlowCount,
  ConntrackFlows,
  ConntrackFrontend,
  ConntrackOutcome,
} from './conntrack.js'
import { decodeFlowCounts, decodeFlows } from './decode.js'
import { encodeAddresses, encodeFrontends } from './encode.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'

/** The connection table of the running kernel. */
export class RealConntrack implements Conntrack {
  readonly #cleaning: RequestQueue<RawConntrackSocket>
  /** Another socket: a command that lists a large table must not delay a clean-up. */
  readonly #reading: RequestQueue<RawConntrackSocket>

  constructor(addon: () => Addon, calls: CallCounts) {
    const open = (): RawConntrackSocket => new (addon().ConntrackSocket)()
    this.#cleaning = new RequestQueue(open, 'conntrack', calls)
    this.#reading = new RequestQueue(open, 'conntrack', calls)
  }

  deleteStale(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<ConntrackOutcome> {
    const { frontends: asked, backends } = encodeFrontends(frontends)
    const addresses = encodeAddresses(nodePortAddresses)
    return this.#cleaning.run(
      async (socket) => {
        const cleaning = await socket.deleteStale(addressFamily[family], asked, backends, addresses)
        const { seen, isFiltered, deleted } = cleaning
        return { seen: isFiltered ? undefined : seen, deleted }
      },
      { family },
    )
  }

  listFlows(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
    limit: number,
  ): Promise<ConntrackFlows> {
    const { frontends: asked } = encodeFrontends(frontends)
    const addresses = encodeAddresses(nodePortAddresses)
    return this.#reading.run(
      async (socket) => {
        const { flows, total } = await socket.listFlows(addressFamily[family], asked, addresses, limit)
        return { flows: decodeFlows(flows, family), total }
      },
      { family },
    )
  }

  countFlows(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<Iterable<ConntrackFlowCount>> {
    const { frontends: asked } = encodeFrontends(frontends)
    const addresses = encodeAddresses(nodePortAddresses)
    return this.#reading.run(
      async (socket) =>
        decodeFlowCounts(await socket.countFlows(addressFamily[family], asked, addresses), family),
      { family },
    )
  }

  async close(): Promise<void> {
    await Promise.all([this.#cleaning.close(), this.#reading.close()])
  }
}
