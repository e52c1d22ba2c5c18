// The objects of nf_tables, as nft(8) describes them.
import type { IpFamily } from '../../address.js'
import type { NfExpression } from './expressions.js'
import type { NfField } from './fields.js'

/** Names a table: `ip` or `ip6` and a name of at most 255 bytes. */
export interface NfTableKey {
  readonly family: IpFamily
  readonly table: string
}

/** owner: only this socket can change the table, and the kernel deletes it with the socket, unless it has `persist` (Linux 6.9). */
export type NfTableFlag = 'dormant' | 'owner' | 'persist'

export interface NfTable extends NfTableKey {
  readonly flags?: readonly NfTableFlag[]
  readonly comment?: string
}

export interface NfChainKey extends NfTableKey {
  readonly chain: string
}

export type NfHookName = 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting'

/** The hook of a base chain, and its place among the chains of the hook. */
export interface NfHook {
  readonly type: 'filter' | 'nat' | 'route'
  readonly hook: NfHookName
  readonly priority: number
  /** The verdict for packets without a verdict of a rule. Default: accept. */
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
  /** For matches and targets of x_tables that require a protocol. Absent in a dump. */
  readonly compat?: { readonly protocol: number; readonly isInverted?: boolean }
}

export interface NfSetKey extends NfTableKey {
  readonly set: string
}

/** interval: keys are ranges. timeout: elements expire. dynamic: rules add elements. constant: elements never change. */
export type NfSetFlag = 'constant' | 'interval' | 'timeout' | 'dynamic'

/** A set; with `data`, a map. */
export interface NfSet extends NfSetKey {
  /** More than one: a concatenation. */
  readonly key: readonly NfField[]
  /** The elements map to a value, a verdict, or a named counter. */
  readonly data?: readonly NfField[] | 'verdict' | 'counter'
  readonly flags?: readonly NfSetFlag[]
  /** Limit of elements. Default: no limit. A dynamic set needs a limit (65535 in nft). */
  readonly size?: number
  /** The time-out of elements without their own. */
  readonly timeoutMs?: number
  readonly gcIntervalMs?: number
  /** Each element counts its packets. */
  readonly isCounting?: boolean
  readonly comment?: string
}

export interface NfCounterKey extends NfTableKey {
  readonly counter: string
}
