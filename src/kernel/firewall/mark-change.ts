// The packet mark after a rule of any program.
import type { NfExpression } from '../nftables/expressions.js'
import { nftMarkBits } from '../marks/nft-marks.js'
import { targets } from '../xtables/nft/info.js'
import type { MarkChange } from './firewall.js'

/** A target of x_tables. */
interface Target {
  readonly name: string
  readonly revision: number
  readonly info: Uint8Array
}

const anyMark: MarkChange = { mask: 0xffffffff, value: undefined }

/** undefined: the target leaves the packet mark. */
export function markChangeOfTarget({ name, revision, info }: Target): MarkChange | undefined {
  switch (name) {
    case 'MARK':
      return (revision === 2 ? targets.MARK.decode(info) : undefined) ?? anyMark
    case 'CONNMARK':
      return info[connmarkModes[revision] ?? 0] === restoreMode ? anyMark : undefined
    case 'SET':
      return ((info[setFlags] ?? 0) & mapMark) === 0 ? undefined : anyMark
    case 'TPROXY':
      return anyMark
    default:
      return undefined
  }
}

/** `mode` of structs xt_connmark_tginfo1 and 2, and XT_CONNMARK_RESTORE (linux/netfilter/xt_connmark.h). */
const connmarkModes: Readonly<Record<number, number>> = { 1: 12, 2: 14 }
const restoreMode = 2
/** The second byte of `flags` of struct xt_set_info_target_v3, and the bit of IPSET_FLAG_MAP_SKBMARK in it (linux/netfilter/xt_set.h). */
const setFlags = 13
const mapMark = 1

/** undefined: the rule leaves the packet mark. The last change counts. */
export function markChangeOfRule(expressions: readonly NfExpression[]): MarkChange | undefined {
  const targetChange = expressions
    .map((each) => (each.kind === 'target' ? markChangeOfTarget(each) : undefined))
    .findLast((change) => change !== undefined)
  return targetChange ?? nftMarkBits(expressions).change
}

/** The expressions without those that make a new mark. */
export function withoutMarkSetting(expressions: readonly NfExpression[]): readonly NfExpression[] {
  const end = expressions.findLastIndex((each) => each.kind === 'meta' && each.from !== undefined)
  if (end < 0) return expressions
  let start = end
  while (start > 0 && expressions[start - 1]?.kind === 'bitwise') start--
  const loads =
    start > 0 && ['meta', 'ct', 'payload', 'immediate'].includes(expressions[start - 1]?.kind ?? '')
  return expressions.filter((_, index) => index < (loads ? start - 1 : start) || index > end)
}
