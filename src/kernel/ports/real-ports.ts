import { formatEndpoint, type IpFamily, type IpAddress, writeAddress } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { Addon, RawListenerSocket, RawPortHolder } from '../addon.js'
import { nameFailures, decodeFailures } from '../batch.js'
import { addressFamily, familyFromByte, recordBuffer, RecordTable } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import { protocolNumber, protocolOf } from '../ipvs/encode.js'
import type { HoldOutcome, Listener, PortOp, PortPlace, Ports, WatchedPort } from './ports.js'
import { inheritedLayout, listenerLayout, opNumber, portLayout } from './layout.js'

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

/** A descriptor of the service manager's store that this process inherited. */
interface InheritedSocket {
  readonly fd: number
  /** The number in its name. */
  readonly number: number
}

function encodePortOps(ops: readonly PortOp[]): Uint8Array {
  const { bytes, view } = recordBuffer(ops.length * portLayout.size)
  for (const [index, { op, place }] of ops.entries()) {
    const at = index * portLayout.size
    if (place.address !== undefined) writeAddress(place.address, bytes, at + portLayout.address)
    view.setUint16(at + portLayout.port, place.port, true)
    bytes[at + portLayout.family] = addressFamily[place.family]
    bytes[at + portLayout.protocol] = protocolNumber[place.protocol]
    bytes[at + portLayout.op] = opNumber[op]
  }
  return bytes
}

/** Records of which only protocol and port count. */
function encodeWatchedPorts(ports: readonly WatchedPort[]): Uint8Array {
  const { bytes, view } = recordBuffer(ports.length * portLayout.size)
  for (const [index, { protocol, port }] of ports.entries()) {
    view.setUint16(index * portLayout.size + portLayout.port, port, true)
    bytes[index * portLayout.size + portLayout.protocol] = protocolNumber[protocol]
  }
  return bytes
}

function encodeInherited(sockets: readonly InheritedSocket[]): Uint8Array {
  const { bytes, view } = recordBuffer(sockets.length * inheritedLayout.size)
  for (const [index, { fd, number }] of sockets.entries()) {
    view.setUint32(index * inheritedLayout.size + inheritedLayout.fd, fd, true)
    view.setUint32(index * inheritedLayout.size + inheritedLayout.number, number, true)
  }
  return bytes
}

/** The places of PortRecords. */
function decodePlaces(bytes: Uint8Array): readonly PortPlace[] {
  const table = new PortTable(bytes, portLayout)
  return Array.from({ length: table.length }, (_, index) => table.place(index))
}

/** ListenerRecords as objects. */
function decodeListeners(bytes: Uint8Array): readonly Listener[] {
  const table = new ListenerTable(bytes, listenerLayout)
  return Array.from({ length: table.length }, (_, index) => table.listener(index))
}

/** Zero stands for every address. */
function orEvery(address: IpAddress): IpAddress | undefined {
  return address === '0.0.0.0' || address === '::' ? undefined : address
}

class PortTable extends RecordTable {
  place(index: number): PortPlace {
    const family = familyFromByte(this.u8(index, portLayout.family))
    return {
      family,
      protocol: protocolOf(this.u8(index, portLayout.protocol)),
      address: orEvery(this.ip(index, portLayout.address, family)),
      port: this.u16(index, portLayout.port),
    }
  }
}

class ListenerTable extends RecordTable {
  listener(index: number): Listener {
    const pid = this.u32(index, listenerLayout.pid)
    const family = familyFromByte(this.u8(index, listenerLayout.family))
    return {
      protocol: protocolOf(this.u8(index, listenerLayout.protocol)),
      address: orEvery(this.ip(index, listenerLayout.address, family)),
      port: this.u16(index, listenerLayout.port),
      uid: this.u32(index, listenerLayout.uid),
      process: pid === 0 ? undefined : { pid, name: this.text(index, listenerLayout.name) },
      isHeld: this.u8(index, listenerLayout.isHeld) !== 0,
      isOwn: this.u8(index, listenerLayout.isOwn) !== 0,
    }
  }
}
