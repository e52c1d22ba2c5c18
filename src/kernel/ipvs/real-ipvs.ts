import type { IpFamily } from '../../address.js'
import type { Addon, RawIpvsSocket } from '../addon.js'
import { nameFailures } from '../batch.js'
import { decodeFailures } from '../decode-failures.js'
import { describeIpvsOp, familyOfIpvsOp } from '../describe.js'
import { IpvsBatch } from './batch.js'
import type {
  Ipvs,
  IpvsConnection,
  IpvsDump,
  IpvsInfo,
  IpvsOp,
  IpvsTimeouts,
  VirtualServerKey,
} from './ipvs.js'
import type { BatchOutcome } from '../outcome.js'
import { encodeVirtualServerKeys } from './encode.js'
import { readConnections } from './read-connections.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'

/** The IPVS table of the running kernel. */
export class RealIpvs implements Ipvs {
  readonly #queue: RequestQueue<RawIpvsSocket>
  /** A dump with counters is for people: writes do not wait for it. */
  readonly #counting: RequestQueue<RawIpvsSocket>

  constructor(addon: () => Addon, calls: CallCounts) {
    const open = (): RawIpvsSocket => new (addon().IpvsSocket)()
    this.#queue = new RequestQueue(open, 'ipvs', calls)
    this.#counting = new RequestQueue(open, 'ipvs', calls)
  }

  load(): Promise<void> {
    return this.#queue.run((socket) => socket.load())
  }

  async apply(ops: readonly IpvsOp[] | IpvsBatch): Promise<BatchOutcome> {
    if (ops.length === 0) return { applied: 0, failures: [] }
    const batch = ops instanceof IpvsBatch ? ops : IpvsBatch.of(ops)
    const { encoded } = batch
    const outcome = await this.#queue.run((socket) =>
      socket.apply(encoded.ops, encoded.virtualServers, encoded.realServers),
    )
    return nameFailures(batch, decodeFailures(outcome), {
      subsystem: 'ipvs',
      describe: describeIpvsOp,
      familyOf: familyOfIpvsOp,
    })
  }

  dump(family: IpFamily, options?: { readonly counters?: boolean }): Promise<IpvsDump> {
    const hasCounters = options?.counters ?? false
    const queue = hasCounters ? this.#counting : this.#queue
    return queue.run((socket) => socket.dump(addressFamily[family], hasCounters), { family })
  }

  read(keys: readonly VirtualServerKey[], options?: { readonly counters?: boolean }): Promise<IpvsDump> {
    const records = encodeVirtualServerKeys(keys)
    return this.#queue.run((socket) => socket.read(records, options?.counters ?? false))
  }

  info(): Promise<IpvsInfo> {
    return this.#queue.run((socket) => socket.info())
  }

  connections(family: IpFamily): AsyncIterable<IpvsConnection> {
    return readConnections(family)
  }

  timeouts(): Promise<IpvsTimeouts> {
    return this.#queue.run((socket) => socket.timeouts())
  }

  setTimeouts({ tcpSeconds, tcpFinSeconds, udpSeconds }: IpvsTimeouts): Promise<void> {
    return this.#queue.run((socket) => socket.setTimeouts(tcpSeconds, tcpFinSeconds, udpSeconds))
  }

  async close(): Promise<void> {
    await Promise.all([this.#queue.close(), this.#counting.close()])
  }
}
