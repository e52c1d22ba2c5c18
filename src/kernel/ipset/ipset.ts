import type { IpAddress, IpFamily } from '../../address.js'
import type { Protocol } from '../ipvs/ipvs.js'
import type { BatchOutcome } from '../outcome.js'

/** Set types that Viaduct uses, by the kernel's names. */
export type IpsetType =
  'hash:ip' | 'hash:net' | 'hash:ip,port' | 'hash:ip,port,ip' | 'hash:ip,port,net' | 'bitmap:port'

/** What a set is made with. */
export interface IpsetSettings {
  /** 1 to 31 characters (IPSET_MAXNAMELEN of linux/netfilter/ipset/ip_set.h, less the NUL). */
  readonly name: string
  readonly type: IpsetType
  /** Of its addresses; a bitmap:port, which has none, is made with `ipv4` and the kernel keeps it as unspecified. */
  readonly family: IpFamily
  /**
   * Entries that the kernel takes, then IPSET_ERR_HASH_FULL; a bitmap:port holds every port. NB: not sharp: places of deleted
   * entries are used beyond it, and of more than 1,024 buckets each 1,024 have their share, and only where that is used up
   * are all counted.
   */
  readonly maxElements: number
  /**
   * Initial buckets of a hash; 1.5 to 2 times the expected entries save the waits of its growth, ten times the rest. The
   * kernel rounds up to a power of two, 64 at the least, and compares it with nothing.
   */
  readonly hashSize: number
  /** Entries may carry a mark, which the SET target copies into the packet. */
  readonly hasMarks: boolean
  /** Entries may carry a comment. */
  readonly hasComments: boolean
}

/** One member. Which fields it has follows from the set's type. */
export interface IpsetEntry {
  /** Of a set of networks: without bits behind the prefix length, which the kernel drops. */
  readonly address?: IpAddress
  /** A number (IPPROTO_*): another protocol, in an entry that somebody else made. Absent in a bitmap:port. */
  readonly protocol?: Protocol | number
  readonly port?: number
  /** The second address of hash:ip,port,ip, or the network of hash:ip,port,net. */
  readonly secondAddress?: IpAddress
  /** Of the network of hash:net and hash:ip,port,net; 0 is not possible in the kernel: two halves stand for it. */
  readonly prefixLength?: number
  /** Only where the set has marks; value and mask 0 are none. */
  readonly mark?: { readonly value: number; readonly mask: number }
  /** At most 255 bytes, without `"`, which ends it in what the tool saves; only where the set has comments. */
  readonly comment?: string
}

/** Every operation of a batch, by name. */
export interface IpsetOps {
  /**
   * EEXIST when a set of that name is there with another type, family, `maxElements` or extension (time-outs and counters
   * are some, too); nothing happens when it has the same. IPSET_ERR_FIND_TYPE: the kernel has no such type.
   */
  'create-set': { readonly set: IpsetSettings }
  /** ENOENT when absent, EBUSY while a rule or another set refers to it. */
  'destroy-set': { readonly name: string }
  /** Removes every entry. ENOENT when absent. */
  'flush-set': { readonly name: string }
  /**
   * Two sets exchange their names at once for packets: a rule that refers to one has the entries of the other then, and its
   * size and extensions. ENOENT when one is absent. IPSET_ERR_TYPE_MISMATCH when they hold different things (type or family),
   * whether somebody refers to them or not: then rules must let go of the one, before it is destroyed and made anew.
   */
  'swap-sets': { readonly name: string; readonly other: string }
  /** EEXIST when `to` is there, EBUSY while referred to. */
  'rename-set': { readonly name: string; readonly to: string }
  /**
   * Nothing happens when it is there already; its mark and comment become these, or go. ENOENT without the set,
   * IPSET_ERR_HASH_FULL when it is new and there is no room. NB: `set` must be what is there, which a `create-set` before
   * shows: the kernel takes from an entry what its own type needs.
   */
  'add-entry': { readonly set: IpsetSettings; readonly entry: IpsetEntry }
  /** Nothing happens when it is absent. ENOENT without the set. */
  'delete-entry': { readonly set: IpsetSettings; readonly entry: IpsetEntry }
}
export type IpsetOp = { readonly [K in keyof IpsetOps]: { readonly op: K } & IpsetOps[K] }[keyof IpsetOps]

/** One set as the kernel lists it. */
export interface IpsetHeader {
  readonly name: string
  /** Also of types that Viaduct does not use. */
  readonly type: string
  readonly family: IpFamily | undefined
  /** Of a bitmap:port the ports in its range; 0 where the type has no such limit. */
  readonly maxElements: number
  readonly hasMarks: boolean
  readonly hasComments: boolean
  /** Rules and sets that refer to it. */
  readonly references: number
  readonly elements: number
}

/**
 * Sets of the kernel, of both families. Operations of one batch are applied in order, each on its own: no rollback, and none
 * waits for the success of another. So what follows only when a set is full and whole, such as its swap, belongs into a later batch.
 *
 * Neighbouring entries of one set cross the kernel's door together: a batch ordered by set is several times faster.
 *
 * EBUSY of swap, rename and destroy may be another program's listing, which ends. EPROTONOSUPPORT of every call: the kernel has
 * no ipset (module ip_set).
 */
export interface Ipset {
  /** Applies all operations; throws KernelError only if the whole batch could not be sent or accounted for. */
  apply(ops: readonly IpsetOp[]): Promise<BatchOutcome>
  /** All sets, without their entries, which the kernel counts one by one. */
  sets(): Promise<readonly IpsetHeader[]>
  /**
   * The entries of a set of a type that Viaduct uses as packed records without comments, in no particular order; read them
   * with IpsetEntryCursor: no object per record. Throws KernelError ENOENT when the set is absent.
   */
  entries(name: string): Promise<Uint8Array>
  /** Waits for the batch in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
