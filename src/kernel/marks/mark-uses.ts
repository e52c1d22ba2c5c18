// Rules of any program that use bits of the packet mark, in the legacy tables and in nf_tables.
import type { IpFamily } from '../../address.js'
import type { RawMarkUse } from '../addon.js'
import type { NfActiveChain } from '../nftables/nftables.js'
import type { NfExpression, NfExpressionOf } from '../nftables/expressions.js'
import type { XtFlavour, XtTableName } from '../xtables/xtables.js'
import type { MarkChange } from '../firewall/firewall.js'

/** The place of a chain. */
export interface ChainPlace {
  readonly flavour: XtFlavour
  /** inet: the chain sees packets of both families. */
  readonly family: IpFamily | 'inet'
  readonly table: string
  readonly chain: string
}

/** The families as nft(8) names them. */
export const nftFamilyNames = { ipv4: 'ip', ipv6: 'ip6', inet: 'inet' } as const

/** `chain PREROUTING of table ip nat in nf_tables`. */
export function describeChainPlace({ flavour, family, table, chain }: ChainPlace): string {
  const place = flavour === 'nft' ? 'nf_tables' : 'the legacy tables'
  return `chain ${chain} of table ${nftFamilyNames[family]} ${table} in ${place}`
}

/** A rule that expects bits of the packet mark to be 1, or sets them to 1. */
export interface MarkUse extends ChainPlace {
  /** Index of the rule in its chain. */
  readonly rule: number
  /** False: the rule expects the bits. */
  readonly isSet: boolean
  readonly bits: number
}

/** The reads of the kernel that find the uses. */
interface MarkReader {
  readonly activeTables: (family: IpFamily) => Promise<readonly XtTableName[]>
  readonly legacyUses: (family: IpFamily, table: XtTableName) => Promise<readonly RawMarkUse[]>
  readonly nftChains: () => Promise<readonly NfActiveChain[]>
  readonly nftRules: (chain: NfActiveChain) => Promise<readonly (readonly NfExpression[])[]>
}

/**
 * The uses in the chains that `isWanted` accepts. Only tables that exist are read. Uses by other means than the match `mark`, the target
 * `MARK` and nft's `meta mark` are left out: CONNMARK, sets and maps. Throws KernelError.
 */
export async function findMarkUses(
  reader: MarkReader,
  isWanted: (place: ChainPlace) => boolean,
): Promise<readonly MarkUse[]> {
  const found: MarkUse[] = []
  for (const family of ['ipv4', 'ipv6'] as const) {
    for (const table of await reader.activeTables(family)) {
      for (const use of await reader.legacyUses(family, table)) {
        const place = { flavour: 'legacy', family, table, chain: use.chain } as const
        if (isWanted(place)) found.push({ ...use, ...place })
      }
    }
  }
  for (const chain of await reader.nftChains()) {
    const place = { flavour: 'nft', family: chain.family, table: chain.table, chain: chain.chain } as const
    if (!isWanted(place)) continue
    for (const [rule, expressions] of (await reader.nftRules(chain)).entries()) {
      const { expected, set } = nftMarkBits(expressions)
      if (expected !== 0) found.push({ ...place, rule, isSet: false, bits: expected })
      if (set !== 0) found.push({ ...place, rule, isSet: true, bits: set })
    }
  }
  return found
}

/** Bits of the packet mark that a rule of nf_tables expects to be 1, and that it sets to 1; 0: none. */
interface MarkBits {
  readonly expected: number
  readonly set: number
  /** The change by `meta mark set`; undefined: the rule has none. */
  readonly change: MarkChange | undefined
}

/** The content of a register: the mark, reduced to `mask`, with the bits `ones` set; or a value. */
type Content =
  | { readonly kind: 'mark'; readonly mask: number; readonly ones: number }
  | { readonly kind: 'value'; readonly ones: number }

type Register = NfExpressionOf<'cmp'>['from']

const everyBit = 0xffffffff
/** The revisions that every kernel has (net/netfilter/xt_mark.c). */
const [matchRevision, targetRevision] = [1, 2]

/**
 * Follows the mark through the registers of the rule: `meta mark & 0x4000 == 0x4000`, `meta mark set meta mark | 0x4000`, and the match
 * `mark` and the target `MARK` of iptables-nft.
 */
export function nftMarkBits(expressions: readonly NfExpression[]): MarkBits {
  const registers = new Map<Register, Content>()
  let expected = 0
  let set = 0
  let change: MarkChange | undefined
  for (const each of expressions) {
    if (each.kind === 'match' && each.name === 'mark' && each.revision === matchRevision)
      expected |= word(each.info, 0) & word(each.info, 4)
    else if (each.kind === 'target' && each.name === 'MARK' && each.revision === targetRevision)
      set |= word(each.info, 0)
    else if (each.kind === 'meta' && each.key === 'mark') {
      if (each.to !== undefined) registers.set(each.to, { kind: 'mark', mask: everyBit, ones: 0 })
      if (each.from !== undefined) {
        const content = registers.get(each.from)
        set |= content?.ones ?? 0
        // The result of several changes is not known.
        change = change === undefined ? changeTo(content) : { mask: everyBit, value: undefined }
      }
    } else if (each.kind === 'cmp' && each.op === '==') {
      const content = registers.get(each.from)
      if (content?.kind === 'mark') expected |= word(each.value, 0) & content.mask
    } else write(each, registers)
  }
  return { expected: expected >>> 0, set: set >>> 0, change }
}

/** `content` undefined: it is not known. */
function changeTo(content: Content | undefined): MarkChange {
  const kept = content?.kind === 'mark' ? content.mask : 0
  return { mask: ~kept >>> 0, value: content?.ones }
}

/** Applies an expression that writes a register. */
function write(each: NfExpression, registers: Map<Register, Content>): void {
  if (each.kind === 'immediate' && 'value' in each.data)
    registers.set(each.to, { kind: 'value', ones: word(each.data.value, 0) })
  else if (each.kind === 'bitwise') {
    const content = registers.get(each.from)
    registers.delete(each.to)
    if (content === undefined || each.mask === undefined) return
    const [mask, xor] = [word(each.mask, 0), each.xor === undefined ? 0 : word(each.xor, 0)]
    const ones = ((content.ones & mask) ^ xor) >>> 0
    registers.set(
      each.to,
      content.kind === 'mark' ? { kind: 'mark', mask: content.mask & mask, ones } : { kind: 'value', ones },
    )
  } else if ('to' in each && each.to !== undefined) registers.delete(each.to)
}

/** A 32-bit number in host order. The addon runs on little-endian machines only. */
function word(bytes: Uint8Array, at: number): number {
  return bytes.length < at + 4 ? 0 : new DataView(bytes.buffer, bytes.byteOffset + at, 4).getUint32(0, true)
}
