import { type KernelError, orRefusal } from '../../errors.js'
import { logFamily } from '../../engine/index.js'
import type { NatGuardTable, NftChains } from '../../kernel/index.js'

/** Removes the table of both families. A failure in one family does not stop the other. `texts`: what was removed. */
export async function cleanUpNatGuard(
  nftChains: Pick<NftChains, 'discardTable'>,
  table: NatGuardTable,
): Promise<{ readonly texts: readonly string[]; readonly failures: readonly KernelError[] }> {
  const texts: string[] = []
  const failures: KernelError[] = []
  for (const family of ['ipv4', 'ipv6'] as const) {
    const isRemoved = await orRefusal(() => nftChains.discardTable(family, table))
    if (isRemoved === true) texts.push(`removed the table ${table} of nf_tables in ${logFamily(family)}`)
    else if (isRemoved !== false) failures.push(isRemoved)
  }
  return { texts, failures }
}
