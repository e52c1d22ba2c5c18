// The packet mark after a rule of any program.
import type { NfExpression } from '../nftables/expressions.js'
import { nftMarkBits } from '../marks/mark-uses.js'
import { targets } from '../xtables/nft/info.js'
import type { MarkChange } from './firewall.js'

/** A match or a target of x_tables. */
interface Extension {
  readonly kind: 'match' | 'target'
  readonly name: string
  readonly revision: number
  readonly info: Uint8Array
}

const anyMark: MarkChange = { mask: 0xffffffff, value: undefined }

/** undefined: the rule leaves the packet mark. `extensions`: its matches and its target. */
export function markChangeOfXtRule(extensions: readonly Extension[]): MarkChange | undefined {
  return changeOf(extensions.map(markChangeOfExtension))
}

/** The result of several changes is not known. */
function changeOf(changes: readonly (MarkChange | undefined)[]): MarkChange | undefined {
  const [change, ...more] = changes.filter((each) => each !== undefined)
  return more.length === 0 ? change : anyMark
}

function markChangeOfExtension({ kind, name, revision, info }: Extension): MarkChange | undefined {
  if (kind === 'match')
    return name === 'socket' && ((info[0] ?? 0) & restoreSocketMark) !== 0 ? anyMark : undefined
  switch (name) {
    case 'MARK':
      return (revision === 2 ? targets.MARK.decode(info) : undefined) ?? anyMark
    case 'CONNMARK':
      return changeByConnmark(revision, info)
    case 'SET':
      return ((info[setFlags] ?? 0) & mapMark) === 0 ? undefined : anyMark
    case 'HMARK':
    case 'TPROXY':
      return anyMark
    default:
      return undefined
  }
}

/**
 * Structs xt_connmark_tginfo1 and 2 (linux/netfilter/xt_connmark.h): `ctmark`, `ctmask`, `nfmask`, in revision 2 the direction and the
 * number of a shift, `mode`. XT_CONNMARK_RESTORE: the new mark is (old & ~nfmask) ^ (the mark of the connection & ctmask, shifted).
 */
function changeByConnmark(revision: number, info: Uint8Array): MarkChange | undefined {
  if (info.length < 16 || (revision !== 1 && revision !== 2)) return anyMark
  if (info[revision === 1 ? 12 : 14] !== restoreMode) return undefined
  if (revision === 2 && info[13] !== 0) return anyMark
  const view = new DataView(info.buffer, info.byteOffset)
  return { mask: (view.getUint32(4, true) | view.getUint32(8, true)) >>> 0, value: undefined }
}

const restoreMode = 2
/** XT_SOCKET_RESTORESKMARK (linux/netfilter/xt_socket.h). */
const restoreSocketMark = 4
/** The second byte of `flags` of struct xt_set_info_target_v3, and the bit of IPSET_FLAG_MAP_SKBMARK in it (linux/netfilter/xt_set.h). */
const setFlags = 13
const mapMark = 1

/** undefined: the rule leaves the packet mark. */
export function markChangeOfRule(expressions: readonly NfExpression[]): MarkChange | undefined {
  const extensions = expressions.filter((each) => each.kind === 'match' || each.kind === 'target')
  return changeOf([markChangeOfXtRule(extensions), nftMarkBits(expressions).change])
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
