import { constants } from 'node:os'
import type { IpFamily } from '../../address.js'
import type { Addon, RawIpsetSocket } from '../addon.js'
import { nameFailures, type RecordFailure, decodeFailures, type BatchOutcome } from '../batch.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import { ipsetErrno } from '../../errors.js'
import { describeIpsetOp, familyOfIpsetOp, type Ipset, type IpsetHeader, type IpsetOp } from './ipset.js'
import { decodeIpsetHeaders } from './cursor.js'
import { encodeIpsetOps } from './encode.js'

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

const { EBUSY, EEXIST, ENOENT, ERANGE } = constants.errno

/** Codes of linux/netfilter/ipset/ip_set.h for which an errno exists. */
const code = { busy: 4100, secondName: 4101, exists: 4103, referenced: 4108 } as const

interface Meaning {
  readonly errno: number
  readonly text: string
}

const meanings: ReadonlyMap<number, Meaning> = new Map([
  [code.busy, { errno: EBUSY, text: 'a rule or another set refers to it, or it is being listed' }],
  [code.referenced, { errno: EBUSY, text: 'a rule or another set refers to it, or it is being listed' }],
  [ipsetErrno.IPSET_ERR_PROTOCOL, { errno: 4097, text: 'the message is not as the set’s type wants it' }],
  [ipsetErrno.IPSET_ERR_MAX_SETS, { errno: 4099, text: 'the kernel has as many sets as it takes' }],
  [ipsetErrno.IPSET_ERR_TYPE_MISMATCH, { errno: 4102, text: 'the two sets hold different things' }],
  [ipsetErrno.IPSET_ERR_INVALID_CIDR, { errno: 4104, text: 'no such prefix length' }],
  [ipsetErrno.IPSET_ERR_INVALID_FAMILY, { errno: 4106, text: 'the set’s type has no such family' }],
  [ipsetErrno.IPSET_ERR_COMMENT, { errno: 4112, text: 'the set has no comments' }],
  [ipsetErrno.IPSET_ERR_SKBINFO, { errno: 4114, text: 'the set has no marks' }],
  [ipsetErrno.IPSET_ERR_HASH_FULL, { errno: 4352, text: 'the set is full' }],
  [ipsetErrno.IPSET_ERR_HASH_ELEM, { errno: 4353, text: 'the set cannot hold this address' }],
  [ipsetErrno.IPSET_ERR_INVALID_PROTO, { errno: 4354, text: 'no such protocol' }],
  [ipsetErrno.IPSET_ERR_MISSING_PROTO, { errno: 4355, text: 'no protocol' }],
])

function meaningOf(op: IpsetOp, errno: number): Meaning | undefined {
  switch (errno) {
    case code.exists:
      return { errno: op.op === 'delete-entry' ? ENOENT : EEXIST, text: '' }
    case code.secondName:
      return op.op === 'swap-sets'
        ? { errno: ENOENT, text: `there is no set ${op.other}` }
        : { errno: EEXIST, text: '' }
    case ipsetErrno.IPSET_ERR_FIND_TYPE: {
      if (!('set' in op)) break
      const module = `ip_set_${op.set.type.replace(':', '_').replaceAll(',', '')}`
      return { errno, text: `the kernel has no sets of type ${op.set.type}: load the module ${module}` }
    }
    case ipsetErrno.IPSET_ERR_HASH_FULL:
      // Each set type defines the codes from here on; for a bitmap this one is IPSET_ERR_BITMAP_RANGE.
      if ('set' in op && op.set.type === 'bitmap:port')
        return { errno: ERANGE, text: 'the port is outside the range of the set' }
      break
  }
  return meanings.get(errno)
}

/** The failure with the translated code and text. */
export function settleIpsetFailure(op: IpsetOp, failure: RecordFailure): RecordFailure {
  const meaning = meaningOf(op, failure.errno)
  if (meaning === undefined) return failure
  return { ...failure, errno: meaning.errno, text: failure.text === '' ? meaning.text : failure.text }
}
