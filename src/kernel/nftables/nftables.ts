// The nf_tables of the kernel: transactions, which are values of typed operations, and reading. nft(8) says what the objects
// are; a transaction takes effect as a whole or not at all.
import type { IpFamily } from '../../address.js'
import type { KernelError } from '../../errors.js'
import type { NftChange } from './changes.js'
import type { NfElements } from './elements.js'
import type { NfExpression } from './expressions.js'
import type { NfField } from './fields.js'
import type { SetAttributes } from './schema.js'

/** Names a table: `ip` or `ip6` and a name of at most 255 bytes. */
export interface NfTableKey {
  readonly family: IpFamily
  readonly table: string
}

/** owner: the table belongs to this socket, and goes with it unless it is persistent. Not all kernels have persist (6.9). */
export type NfTableFlag = 'dormant' | 'owner' | 'persist'

export interface NfTable extends NfTableKey {
  readonly flags?: readonly NfTableFlag[]
  readonly comment?: string
}

export interface NfChainKey extends NfTableKey {
  readonly chain: string
}

export type NfHookName = 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting'

/** Where a base chain sees packets. */
export interface NfHook {
  readonly type: 'filter' | 'nat' | 'route'
  readonly hook: NfHookName
  readonly priority: number
  /** The verdict on packets that no rule decided. Default accept. */
  readonly policy?: 'accept' | 'drop'
}

export interface NfChain extends NfChainKey {
  /** Absent: a regular chain. */
  readonly hook?: NfHook
  readonly comment?: string
}

export interface NfRule extends NfChainKey {
  readonly expressions: readonly NfExpression[]
  /** At most 253 bytes. */
  readonly comment?: string
  /** For matches and targets of x_tables that insist on a protocol; the kernel never shows it. */
  readonly compat?: { readonly protocol: number; readonly isInverted?: boolean }
}

export interface NfSetKey extends NfTableKey {
  readonly set: string
}

/** interval: keys are ranges. timeout: elements expire. dynamic: rules add elements. constant: elements never change. */
export type NfSetFlag = 'constant' | 'interval' | 'timeout' | 'dynamic'

/** A set, or a map when it has data. */
export interface NfSet extends NfSetKey {
  /** More than one: a concatenation. */
  readonly key: readonly NfField[]
  /** The elements map to a value, a verdict, or a named counter. */
  readonly data?: readonly NfField[] | 'verdict' | 'counter'
  readonly flags?: readonly NfSetFlag[]
  /** The most elements. Default: no limit; a dynamic set needs one (65535 in nft). */
  readonly size?: number
  /** The time-out of elements that name none. */
  readonly timeoutMs?: number
  readonly gcIntervalMs?: number
  /** Each element counts its packets. */
  readonly isCounting?: boolean
  readonly comment?: string
}

export interface NfCounterKey extends NfTableKey {
  readonly counter: string
}

/** Handles are the kernel's numbers for an object, unique in its table. */
interface NfOps {
  /** No error when it exists. The flags of an existing table are changed. */
  'add-table': { readonly table: NfTable }
  /** EEXIST when it exists. */
  'create-table': { readonly table: NfTable }
  /** With all that is in it. ENOENT when absent. */
  'delete-table': { readonly table: NfTableKey }
  /** Deletes the rules of all chains. */
  'flush-table': { readonly table: NfTableKey }
  'add-chain': { readonly chain: NfChain }
  /** With its rules. EBUSY while a rule or an element jumps to it. */
  'delete-chain': { readonly chain: NfChainKey }
  'flush-chain': { readonly chain: NfChainKey }
  /** At the end, or behind the rule with the handle. */
  'add-rule': { readonly rule: NfRule; readonly after?: number; readonly wantsHandle?: boolean }
  /** At the front, or before the rule with the handle. */
  'insert-rule': { readonly rule: NfRule; readonly before?: number; readonly wantsHandle?: boolean }
  /** In the same place. */
  'replace-rule': { readonly rule: NfRule; readonly handle: number }
  'delete-rule': { readonly rule: NfChainKey; readonly handle: number }
  'add-set': { readonly set: NfSet }
  /** EBUSY while a rule uses it. */
  'delete-set': { readonly set: NfSetKey }
  'flush-set': { readonly set: NfSet }
  /** No error when an element exists with the same data; EEXIST with other data. */
  'add-elements': { readonly elements: NfElements }
  /** EEXIST when one exists. */
  'create-elements': { readonly elements: NfElements }
  /** ENOENT when one is absent. Data is ignored. */
  'delete-elements': { readonly elements: NfElements }
  'add-counter': { readonly counter: NfCounterKey }
  /** EBUSY while a rule uses it. */
  'delete-counter': { readonly counter: NfCounterKey }
}

export type NfOp = { readonly [K in keyof NfOps]: { readonly op: K } & NfOps[K] }[keyof NfOps]

/** Operations that take effect together, in order. */
export type NfTransaction = readonly NfOp[]

export interface NfApplyOptions {
  /** ERESTART unless the ruleset is at this generation, unchanged since it was read. Not 0. */
  readonly generation?: number
  /** The kernel checks the operations, reports what is wrong and changes nothing. Not: what shows at a commit (loops). */
  readonly isDryRun?: boolean
}

export interface NfFailure {
  /** Index of the operation in the transaction; absent: the transaction as a whole was refused. */
  readonly operation?: number
  /** Index of the element in the operation, when the kernel names one. */
  readonly element?: number
  readonly error: KernelError
}

export interface NfOutcome {
  /** unknown: the kernel's answer was lost; the transaction may have been applied. */
  readonly state: 'applied' | 'refused' | 'unknown'
  /**
   * Of the ruleset after this transaction. Absent: it changed nothing, or begins with the deletion of something other than
   * elements; the kernel does not say then.
   */
  readonly generation?: number
  /** Every refused operation; of one with many elements the first refused one of each message of about 1,000. */
  readonly failures: readonly NfFailure[]
  /** Handles of the rules of operations that want one, by index of the operation. */
  readonly handles: ReadonlyMap<number, number>
}

export interface NfTableState extends NfTable {
  readonly handle: number
  /** Port id of the socket that owns it. */
  readonly owner?: number
}

export interface NfChainState extends NfChain {
  readonly handle: number
}

/** Counters of the expressions included. */
export interface NfRuleState extends NfChainKey {
  readonly handle: number
  readonly expressions: readonly NfExpression[]
  readonly comment?: string
}

export interface NfSetState extends NfSetKey {
  readonly attributes: SetAttributes
}

export interface NfCounterState extends NfCounterKey {
  readonly packets: number
  readonly bytes: number
}

/** Absent: of all tables of the family. */
export type NfScope = { readonly family: IpFamily; readonly table?: string }

/** All calls throw KernelError: EINVAL or EPROTONOSUPPORT on a kernel without nf_tables, EBADF after close(). */
export interface Nftables {
  /** Throws EMSGSIZE when the transaction is larger than the kernel's send buffer can be. */
  apply(transaction: NfTransaction, options?: NfApplyOptions): Promise<NfOutcome>
  /** Number of the ruleset's state: each transaction that changes something, of any program, adds one. */
  generation(): Promise<number>
  tables(family: IpFamily): Promise<readonly NfTableState[]>
  chains(scope: NfScope): Promise<readonly NfChainState[]>
  /** In order. NB: of a whole table the kernel's time grows with the square of its size; of a chain it does not. */
  rules(scope: NfScope & { readonly chain?: string }): Promise<readonly NfRuleState[]>
  /** ENOENT: no such table. */
  sets(scope: NfScope): Promise<readonly NfSetState[]>
  counters(scope: NfScope): Promise<readonly NfCounterState[]>
  /** In no order. ENOENT: no such set. EPROTO: its elements are of other types. */
  elements(set: NfSet): Promise<NfElements>
  /** Changes that others make from now on; what apply() of this object does is left out. */
  watch(): NftWatch
  close(): Promise<void>
}

export interface NftWatch {
  /** Resolves with the next changes; with undefined after close(). */
  next(): Promise<readonly NftChange[] | undefined>
  close(): Promise<void>
}
