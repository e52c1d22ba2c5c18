// Sets and maps of nf_tables, as nft(8) describes them.
import type { IpFamily } from '../../address.js'
import type { NfField } from './fields.js'

/** Names a table: `ip` or `ip6` and a name of at most 255 bytes. */
export interface NfTableKey {
  readonly family: IpFamily
  readonly table: string
}

export interface NfSetKey extends NfTableKey {
  readonly set: string
}

/**
 * interval: keys are ranges. timeout: elements expire. dynamic: rules add elements. constant: elements never change. anonymous: the
 * set belongs to a rule, and the kernel deletes it with the rule.
 */
export type NfSetFlag = 'anonymous' | 'constant' | 'interval' | 'timeout' | 'dynamic'

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
