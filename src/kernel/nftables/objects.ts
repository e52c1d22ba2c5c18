// The objects of nf_tables, as nft(8) describes them.
import type { NfExpression } from './expressions.js'
import type { NfTableKey } from './sets.js'

export type * from './sets.js'

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

export interface NfCounterKey extends NfTableKey {
  readonly counter: string
}
