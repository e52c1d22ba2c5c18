import { formatEndpoint, type IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { Addon, RawListenerSocket, RawPortHolder } from '../addon.js'
import { nameFailures } from '../batch.js'
import { decodeFailures } from '../decode-failures.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import type { HoldOutcome, Listener, PortOp, PortPlace, Ports, WatchedPort } from './ports.js'
import {
  decodeListeners,
  decodePlaces,
  encodeInherited,
  encodePortOps,
  encodeWatchedPorts,
  type InheritedSocket,
} from './records.js'

/** The service manager of this process, and the descriptors that it passed on. */
export interface PortStore {
  /** The value of NOTIFY_SOCKET; undefined: no service manager stores held ports. */
  readonly socket: string | undefined
  /** The held ports that an earlier process stored. */
  readonly inherited: readonly InheritedSocket[]
}

export const noPortStore: PortStore = { socket: undefined, inherited: [] }

/** `tcp 192.0.2.1:30080`, `udp *:30053`. */
export function describePlace({
  protocol,
  address,
  port,
}: Pick<PortPlace, 'protocol' | 'address' | 'port'>): string {
  return `${protocol} ${address === undefined ? `*:${port}` : formatEndpoint(address, port)}`
}

/** The ports of this machine. */
export class RealPorts implements Ports {
  readonly #holder: RequestQueue<RawPortHolder>
  readonly #listeners: RequestQueue<RawListenerSocket>

  constructor(addon: () => Addon, store: PortStore, calls: CallCounts) {
    const inherited = encodeInherited(store.inherited)
    const { socket } = store
    this.#holder = new RequestQueue(
      () =>
        socket === undefined
          ? new (addon().PortHolder)(inherited)
          : new (addon().PortHolder)(inherited, socket),
      'ports',
      calls,
    )
    this.#listeners = new RequestQueue(() => new (addon().ListenerSocket)(), 'ports', calls)
  }

  async apply(ops: readonly PortOp[]): Promise<HoldOutcome> {
    const records = encodePortOps(ops)
    const outcome = await this.#holder.run((holder) => holder.apply(records))
    const named = nameFailures(ops, decodeFailures(outcome), {
      subsystem: 'ports',
      describe: ({ place }) => describePlace(place),
      familyOf: ({ place }) => place.family,
    })
    const { storeErrno: errno } = outcome
    const storeError =
      errno === 0 ? undefined : new KernelError({ errno, subsystem: 'ports', operation: 'store held ports' })
    return { ...named, storeError }
  }

  async list(): Promise<readonly PortPlace[]> {
    return decodePlaces(await this.#holder.run((holder) => holder.list()))
  }

  async find(family: IpFamily, ports: readonly WatchedPort[]): Promise<readonly Listener[]> {
    const asked = encodeWatchedPorts(ports)
    const found = await this.#listeners.run((socket) => socket.find(addressFamily[family], asked), { family })
    return decodeListeners(found)
  }

  async close(): Promise<void> {
    await Promise.all([this.#holder.close(), this.#listeners.close()])
  }
}
