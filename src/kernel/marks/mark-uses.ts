// Rules of any program that use bits of the packet mark, in the legacy tables and in nf_tables.
import type { IpFamily } from '../../address.js'
import type { RawMarkUse } from '../addon.js'
import type { NfActiveChain } from '../nftables/nftables.js'
import type { NfExpression } from '../nftables/expressions.js'
import type { XtFlavour, XtTableName } from '../xtables/xtables.js'
import { nftMarkBits } from './nft-marks.js'

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
export interface MarkReader {
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
