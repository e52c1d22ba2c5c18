import type { IpFamily } from '../../address.js'
import type { Addon, RawIpsetSocket } from '../addon.js'
import { nameFailures, type RecordFailure } from '../batch.js'
import { decodeFailures } from '../decode-failures.js'
import { describeIpsetOp, familyOfIpsetOp } from './describe.js'
import { decodeIpsetHeaders } from './cursor.js'
import { encodeIpsetOps } from './encode.js'
import { settleIpsetFailure } from './errors.js'
import type { Ipset, IpsetHeader, IpsetOp } from './ipset.js'
import type { BatchOutcome } from '../outcome.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'

/** The sets of the running kernel. */
export class RealIpset implements Ipset {
  readonly #queue: RequestQueue<RawIpsetSocket>

  constructor(addon: () => Addon, calls: CallCounts) {
    this.#queue = new RequestQueue(() => new (addon().IpsetSocket)(), 'ipset', calls)
  }

  async apply(ops: readonly IpsetOp[]): Promise<BatchOutcome> {
    if (ops.length === 0) return { applied: 0, failures: [] }
    const { ops: records, sets, entries, texts } = encodeIpsetOps(ops)
    const outcome = await this.#queue.run((socket) => socket.apply(records, sets, entries, texts))
    const failures = decodeFailures(outcome).map((failure): RecordFailure => {
      const op = ops[failure.index]
      return op === undefined ? failure : settleIpsetFailure(op, failure)
    })
    return nameFailures(ops, failures, {
      subsystem: 'ipset',
      describe: describeIpsetOp,
      familyOf: familyOfIpsetOp,
    })
  }

  async sets(): Promise<readonly IpsetHeader[]> {
    return decodeIpsetHeaders(await this.#queue.run((socket) => socket.listSets()))
  }

  entries(name: string): Promise<Uint8Array> {
    return this.#queue.run((socket) => socket.listEntries(name), { object: name })
  }

  number(name: string, family: IpFamily): Promise<number> {
    return this.#queue.run((socket) => socket.findIndex(addressFamily[family], name), { family })
  }

  close(): Promise<void> {
    return this.#queue.close()
  }
}
