import { type IpAddress, type IpFamily, familyOf } from '../../address.js'
import type { Protocol } from '../ipvs/ipvs.js'
import type { BatchOutcome } from '../batch.js'
import { hostPrefixLength } from '../records.js'

/** Set types that Viaduct uses, by the kernel's names. */
export type IpsetType =
  'hash:ip' | 'hash:net' | 'hash:ip,port' | 'hash:ip,port,ip' | 'hash:ip,port,net' | 'bitmap:port'

/** Settings to create a set with. */
export interface IpsetSettings {
  /** 1 to 31 characters (IPSET_MAXNAMELEN of linux/netfilter/ipset/ip_set.h, less the NUL). */
  readonly name: string
  readonly type: IpsetType
  /** Family of the addresses. A bitmap:port has none: it is created with `ipv4`, and the kernel stores it as unspecified. */
  readonly family: IpFamily
  /**
   * Limit of entries; beyond it the kernel answers IPSET_ERR_HASH_FULL. A bitmap:port holds every port. NB: the limit is not exact.
   * The kernel reuses places of deleted entries beyond it. With more than 1,024 buckets each 1,024 have a share, and the kernel counts
   * all entries only if a share is used up.
   */
  readonly maxElements: number
  /**
   * Initial buckets of a hash. 1.5 to 2 times the expected entries avoid the waits for its growth. The kernel rounds up to a power of
   * two, at least 64. It does not compare the value with that of an existing set.
   */
  readonly hashSize: number
  /** Entries may carry a mark, which the SET target copies into the packet. */
  readonly hasMarks: boolean
  /** Entries may carry a comment. */
  readonly hasComments: boolean
}

/** An entry of a set. The set's type decides which fields it has. */
export interface IpsetEntry {
  /** In a set of networks: without bits after the prefix length, which the kernel clears. */
  readonly address?: IpAddress
  /** A number (IPPROTO_*): another protocol, in an entry of another program. Absent in a bitmap:port. */
  readonly protocol?: Protocol | number
  readonly port?: number
  /** The second address of hash:ip,port,ip, or the network of hash:ip,port,net. */
  readonly secondAddress?: IpAddress
  /** Prefix length of the network in hash:net and hash:ip,port,net. The kernel does not support 0: use two networks of length 1. */
  readonly prefixLength?: number
  /** Only if the set has marks. Value and mask 0: no mark. */
  readonly mark?: { readonly value: number; readonly mask: number }
  /** At most 255 bytes, without `"`, which would end the comment in `ipset save`. Only if the set has comments. */
  readonly comment?: string
}

/** Operations by name. */
interface IpsetOps {
  /**
   * EEXIST if a set with this name has another type, family, `maxElements` or extension (also time-outs and counters). No change if a
   * set with this name has the same. IPSET_ERR_FIND_TYPE: the kernel lacks the type.
   */
  'create-set': { readonly set: IpsetSettings }
  /** ENOENT when absent, EBUSY while a rule or another set refers to it. */
  'destroy-set': { readonly name: string }
  /** Removes every entry. ENOENT when absent. */
  'flush-set': { readonly name: string }
  /**
   * Two sets exchange their names, atomically for packets: a rule that refers to one then uses the entries, size and extensions of the
   * other. ENOENT when one is absent. IPSET_ERR_TYPE_MISMATCH when type or family differ, referenced or not: then no rule may refer to
   * the set before it is destroyed and created again.
   */
  'swap-sets': { readonly name: string; readonly other: string }
  /** EEXIST when `to` exists, EBUSY while a rule or another set refers to the set. */
  'rename-set': { readonly name: string; readonly to: string }
  /**
   * A present entry gets this mark and comment, or loses them. ENOENT without the set, IPSET_ERR_HASH_FULL when the entry is new and
   * the set is full. NB: `set` must match the kernel's set, as a preceding `create-set` shows: the kernel reads from an entry the fields
   * of its own type.
   */
  'add-entry': { readonly set: IpsetSettings; readonly entry: IpsetEntry }
  /** No change when the entry is absent. ENOENT without the set. */
  'delete-entry': { readonly set: IpsetSettings; readonly entry: IpsetEntry }
}
export type IpsetOp = { readonly [K in keyof IpsetOps]: { readonly op: K } & IpsetOps[K] }[keyof IpsetOps]

/** One set as the kernel lists it. */
export interface IpsetHeader {
  readonly name: string
  /** May be a type that Viaduct does not use. */
  readonly type: string
  readonly family: IpFamily | undefined
  /** For a bitmap:port the number of ports in its range; 0 if the type has no limit. */
  readonly maxElements: number
  readonly hasMarks: boolean
  readonly hasComments: boolean
  /** Rules and sets that refer to the set. */
  readonly references: number
  readonly elements: number
}

/**
 * Sets of the kernel, of both families. Operations of one batch are applied in order, without rollback; a failure does not stop the
 * later ones. An operation that needs a complete set, such as its swap, belongs in a later batch.
 *
 * Consecutive entries of one set share a message: a batch ordered by set is several times faster.
 *
 * EBUSY of swap, rename and destroy may come from another program's listing: retry. EPROTONOSUPPORT from any call: the kernel has no
 * ipset (module ip_set).
 */
export interface Ipset {
  /** Applies all operations; throws KernelError only if the whole batch could not be sent or accounted for. */
  apply(ops: readonly IpsetOp[]): Promise<BatchOutcome>
  /** All sets, without their entries. The kernel counts the entries one by one. */
  sets(): Promise<readonly IpsetHeader[]>
  /**
   * The entries of a set, whose type must be an IpsetType, as packed records without comments, in no particular order. Read them with
   * IpsetEntryCursor, without an object per record. Throws KernelError ENOENT when the set is absent.
   */
  entries(name: string): Promise<Uint8Array>
  /**
   * The number by which rules of x_tables name a set of this family. It is valid as long as the set exists; a swap does not change it.
   * Throws KernelError ENOENT when the set is absent.
   */
  number(name: string, family: IpFamily): Promise<number>
  /** Waits for the batch in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}

/** Like SetType of native/ipset/set_type.h. */
export interface IpsetShape {
  readonly hasAddress: boolean
  readonly hasPort: boolean
  readonly hasSecondAddress: boolean
  /** The last address is a network. */
  readonly hasNetwork: boolean
}

const none: IpsetShape = { hasAddress: true, hasPort: false, hasSecondAddress: false, hasNetwork: false }

export const ipsetShapes: Readonly<Record<IpsetType, IpsetShape>> = {
  'hash:ip': none,
  'hash:net': { ...none, hasNetwork: true },
  'hash:ip,port': { ...none, hasPort: true },
  'hash:ip,port,ip': { ...none, hasPort: true, hasSecondAddress: true },
  'hash:ip,port,net': { ...none, hasPort: true, hasSecondAddress: true, hasNetwork: true },
  'bitmap:port': { ...none, hasAddress: false, hasPort: true },
}

function describeNetwork({ secondAddress, prefixLength }: IpsetEntry): string {
  if (secondAddress === undefined) return ''
  const isHost = prefixLength === undefined || prefixLength === hostPrefixLength(familyOf(secondAddress))
  return `,${secondAddress}${isHost ? '' : `/${prefixLength}`}`
}

/** The entry's identity in its set, as the ipset tool prints it: `10.96.0.10,tcp:80`, `10.0.0.0/8`, `30080`. */
export function describeIpsetEntry(entry: IpsetEntry): string {
  const { address, protocol, port, secondAddress, prefixLength } = entry
  if (address === undefined) return `${port}`
  if (port !== undefined) return `${address},${protocol}:${port}${describeNetwork(entry)}`
  const isHost = prefixLength === undefined || prefixLength === hostPrefixLength(familyOf(address))
  return isHost || secondAddress !== undefined ? address : `${address}/${prefixLength}`
}

/** The object of the operation: `KUBE-CLUSTER-IP`, `KUBE-CLUSTER-IP 10.96.0.10,tcp:80`, `A with B`. */
export function describeIpsetOp(op: IpsetOp): string {
  switch (op.op) {
    case 'create-set':
      return `${op.set.name} ${op.set.type}`
    case 'destroy-set':
    case 'flush-set':
      return op.name
    case 'swap-sets':
      return `${op.name} with ${op.other}`
    case 'rename-set':
      return `${op.name} to ${op.to}`
    case 'add-entry':
    case 'delete-entry':
      return `${op.set.name} ${describeIpsetEntry(op.entry)}`
  }
}

/** Unknown for an operation that only names its set. */
export function familyOfIpsetOp(op: IpsetOp): IpFamily | 'none' {
  return 'set' in op && op.set.type !== 'bitmap:port' ? op.set.family : 'none'
}
