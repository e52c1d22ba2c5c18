// The nf_tables of the kernel: transactions of typed operations, and reads. nft(8) describes the objects. A transaction takes effect as
// a whole or not at all.
import type { IpFamily } from '../../address.js'
import type { KernelError } from '../../errors.js'
import type { NftChange } from './changes.js'
import type { NfElements } from './elements.js'
import type { NfExpression } from './expressions.js'
import type {
  NfChain,
  NfChainKey,
  NfCounterKey,
  NfHook,
  NfRule,
  NfSet,
  NfSetKey,
  NfTable,
  NfTableKey,
} from './objects.js'
import type { SetAttributes } from './schema.js'

export type * from './objects.js'

/** Operations by name. A handle is the kernel's number of an object, unique in its table. */
interface NfOps {
  /** No error if the table exists; its flags are then changed. */
  'add-table': { readonly table: NfTable }
  /** EEXIST if the table exists. */
  'create-table': { readonly table: NfTable }
  /** Deletes the table with its content. ENOENT when absent. */
  'delete-table': { readonly table: NfTableKey }
  /** Deletes the rules of all chains. */
  'flush-table': { readonly table: NfTableKey }
  'add-chain': { readonly chain: NfChain }
  /** Deletes the chain with its rules. EBUSY while a rule or an element jumps to it. */
  'delete-chain': { readonly chain: NfChainKey }
  'flush-chain': { readonly chain: NfChainKey }
  /** Adds the rule at the end of the chain, or after the rule with this handle. */
  'add-rule': { readonly rule: NfRule; readonly after?: number; readonly wantsHandle?: boolean }
  /** Adds the rule at the start of the chain, or before the rule with this handle. */
  'insert-rule': { readonly rule: NfRule; readonly before?: number; readonly wantsHandle?: boolean }
  /** The new rule takes the place of the rule with this handle. */
  'replace-rule': { readonly rule: NfRule; readonly handle: number }
  'delete-rule': { readonly rule: NfChainKey; readonly handle: number }
  'add-set': { readonly set: NfSet }
  /** EBUSY while a rule uses it. */
  'delete-set': { readonly set: NfSetKey }
  'flush-set': { readonly set: NfSet }
  /** No error if an element exists with the same data; EEXIST if it has other data. */
  'add-elements': { readonly elements: NfElements }
  /** EEXIST if an element exists. */
  'create-elements': { readonly elements: NfElements }
  /** ENOENT if an element is absent. Ignores data. */
  'delete-elements': { readonly elements: NfElements }
  'add-counter': { readonly counter: NfCounterKey }
  /** EBUSY while a rule uses it. */
  'delete-counter': { readonly counter: NfCounterKey }
}

export type NfOp = { readonly [K in keyof NfOps]: { readonly op: K } & NfOps[K] }[keyof NfOps]

/** Operations that take effect together, in order. */
export type NfTransaction = readonly NfOp[]

export interface NfApplyOptions {
  /** The expected generation of the ruleset, not 0: the kernel refuses the transaction with ERESTART if it differs. */
  readonly generation?: number
  /** The kernel checks the operations and changes nothing. It does not find errors of the commit, such as loops. */
  readonly isDryRun?: boolean
}

export interface NfFailure {
  /** Index of the operation in the transaction. Absent: the kernel refused the transaction as a whole. */
  readonly operation?: number
  /** Index of the element in the operation, if the kernel names an element. */
  readonly element?: number
  readonly error: KernelError
}

export interface NfOutcome {
  /** unknown: the kernel's answer was lost; the transaction may have been applied. */
  readonly state: 'applied' | 'refused' | 'unknown'
  /**
   * The ruleset's generation after this transaction. Absent: unknown, because the transaction changed nothing, or begins with the deletion
   * of a whole table or of all its rules.
   */
  readonly generation?: number
  /** Every refused operation. For an operation with many elements: the first refused element of each message of about 1,000. */
  readonly failures: readonly NfFailure[]
  /** Handles of the new rules of operations with `wantsHandle`, by index of the operation. */
  readonly handles: ReadonlyMap<number, number>
}

export interface NfTableState extends NfTable {
  readonly handle: number
  /** Port id of the socket that owns the table. */
  readonly owner?: number
}

export interface NfChainState extends NfChain {
  readonly handle: number
}

/** A rule in a dump. Its counters hold the counted packets. Lookups in anonymous sets have their elements. */
export interface NfRuleState extends NfChainKey {
  readonly handle: number
  readonly expressions: readonly NfExpression[]
  readonly comment?: string
}

export interface NfSetState extends NfSetKey {
  /** `count`: the number of elements. Absent before Linux 6.16. */
  readonly attributes: SetAttributes
}

export interface NfCounterState extends NfCounterKey {
  readonly packets: number
  readonly bytes: number
}

/** A chain of a table that is not dormant. */
export interface NfActiveChain {
  /** inet: the chain sees packets of both families. */
  readonly family: IpFamily | 'inet'
  readonly table: string
  readonly chain: string
  /** Absent: no base chain. */
  readonly hook?: NfHook
}

/** A base chain of hook forward, of any program. */
export interface NfHookChain {
  /** inet: the chain sees packets of both families. */
  readonly family: IpFamily | 'inet'
  readonly table: string
  readonly chain: string
  readonly policy: 'accept' | 'drop'
  /** In order. */
  readonly rules: readonly (readonly NfExpression[])[]
}

/** A table that may see packets of both families. */
export type NfTablePlace = Pick<NfActiveChain, 'family' | 'table'>

/** The elements of one dump. */
export interface NfDumpedElements {
  readonly elements: NfElements
  /** A transaction of any program came between: elements may be missing or repeated, and some may have gone since. */
  readonly isInterrupted: boolean
}

/** `table` absent: all tables of the family. */
export type NfScope = { readonly family: IpFamily; readonly table?: string }

/** All calls throw KernelError: EINVAL or EPROTONOSUPPORT on a kernel without nf_tables, EBADF after close(). */
export interface Nftables {
  /** Throws EMSGSIZE if the transaction is larger than the largest send buffer of the kernel. */
  apply(transaction: NfTransaction, options?: NfApplyOptions): Promise<NfOutcome>
  /** The generation of the ruleset. Each transaction of any program that changes something increases it by one. */
  generation(): Promise<number>
  tables(family: IpFamily): Promise<readonly NfTableState[]>
  chains(scope: NfScope): Promise<readonly NfChainState[]>
  /** In order. NB: for a whole table the kernel's time grows with the square of its size; for one chain it does not. */
  rules(scope: NfScope & { readonly chain?: string }): Promise<readonly NfRuleState[]>
  /** The base chains of hook forward, in all tables of `ip`, `ip6` and `inet`. Tables that are dormant have none. */
  forwardChains(): Promise<readonly NfHookChain[]>
  /** The tables of any program that translate addresses of new connections of the family: a chain of type nat is at prerouting or output. */
  tablesWithNat(family: IpFamily): Promise<readonly NfTablePlace[]>
  /**
   * The sets that have names of their own: anonymous sets belong to their rules. `set`: the one of this name. ENOENT: no such table, or
   * set.
   */
  sets(scope: NfScope & { readonly set?: string }): Promise<readonly NfSetState[]>
  counters(scope: NfScope): Promise<readonly NfCounterState[]>
  /**
   * In no particular order. NB: the kernel's time grows with the square of their number: 0.15 s for 100,000. Reads again if a transaction of
   * any program comes between. ENOENT: the set is absent. EPROTO: its elements have another layout. EINTR: a transaction came each time.
   */
  elements(set: NfSet): Promise<NfElements>
  /** As elements(), read once. */
  elementsOnce(set: NfSet): Promise<NfDumpedElements>
  /**
   * The elements with these keys, one after the other in `keys`, in their order and without those that are absent. The time does not
   * depend on the size of the set, as that of elements() does. ENOENT: the set is absent. EPROTO: its elements have another layout.
   */
  elementsByKey(set: NfSet, keys: Uint8Array): Promise<NfElements>
  /** Watches changes of other writers from now on. Changes by `apply` of this object are left out. */
  watch(): NftWatch
  close(): Promise<void>
}

export interface NftWatch {
  /** Resolves with the next changes; with undefined after close(). */
  next(): Promise<readonly NftChange[] | undefined>
  close(): Promise<void>
}
