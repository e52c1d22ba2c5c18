import type { IpAddress, IpFamily } from '../address.js'
import type { Protocol } from './ipvs.js'
import type { BatchOutcome } from './outcome.js'

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
  /** Entries that the kernel takes, then IPSET_ERR_HASH_FULL; a bitmap:port holds every port. */
  readonly maxElements: number
  /** Initial buckets of a hash; 1.5 to 2 times the expected entries save the waits of its growth. */
  readonly hashSize: number
  /** Entries may carry a mark, which the SET target copies into the packet. */
  readonly hasMarks: boolean
  /** Entries may carry a comment. */
  readonly hasComments: boolean
}

/** One member. Which fields it has follows from the set's type. */
export interface IpsetEntry {
  readonly address?: IpAddress
  readonly protocol?: Protocol
  readonly port?: number
  /** The second address of hash:ip,port,ip, or the network of hash:ip,port,net. */
  readonly secondAddress?: IpAddress
  /** Of the network of hash:net and hash:ip,port,net; 0 is not possible in the kernel: two halves stand for it. */
  readonly prefixLength?: number
  /** Only where the set has marks. */
  readonly mark?: { readonly value: number; readonly mask: number }
  /** At most 255 bytes; only where the set has comments. */
  readonly comment?: string
}

/** Every operation of a batch, by name. */
export interface IpsetOps {
  /** EEXIST when a set of that name is there with other settings; nothing happens when it has the same. */
  'create-set': { readonly set: IpsetSettings }
  /** ENOENT when absent, EBUSY while a rule or another set refers to it. */
  'destroy-set': { readonly name: string }
  /** Removes every entry. ENOENT when absent. */
  'flush-set': { readonly name: string }
  /** Exchanges the contents, and the references, of two sets of one type. */
  'swap-sets': { readonly name: string; readonly other: string }
  /** EEXIST when `to` is there, EBUSY while referred to. */
  'rename-set': { readonly name: string; readonly to: string }
  /** Nothing happens when it is there already; its mark and comment become these. */
  'add-entry': { readonly set: IpsetSettings; readonly entry: IpsetEntry }
  /** Nothing happens when it is absent. */
  'delete-entry': { readonly set: IpsetSettings; readonly entry: IpsetEntry }
}
export type IpsetOp = { readonly [K in keyof IpsetOps]: { readonly op: K } & IpsetOps[K] }[keyof IpsetOps]

/** One set as the kernel lists it. */
export interface IpsetHeader {
  readonly name: string
  /** Also of types that Viaduct does not use. */
  readonly type: string
  readonly family: IpFamily | undefined
  readonly maxElements: number
  readonly hasMarks: boolean
  readonly hasComments: boolean
  /** Rules and sets that refer to it. */
  readonly references: number
  readonly elements: number
}

/** Sets of the kernel, of both families. Operations of one batch are applied in order, each on its own: no rollback. */
export interface Ipset {
  /** Applies all operations; throws KernelError only if the whole batch could not be sent or accounted for. */
  apply(ops: readonly IpsetOp[]): Promise<BatchOutcome>
  /** All sets, without their entries. */
  sets(): Promise<readonly IpsetHeader[]>
  /**
   * The entries of a set of a type that Viaduct uses as packed records without comments, in no particular order; read them
   * with the cursor of ipset-cursor.ts: no object per record. Throws KernelError ENOENT when the set is absent.
   */
  entries(name: string): Promise<Uint8Array>
  /** Waits for the batch in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
