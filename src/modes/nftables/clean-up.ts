// Clean-up of nftables mode, ours or kube-proxy's, which has one table in each family (F-101, F-102).
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { NftChains } from '../../kernel/index.js'
import { logFamily } from '../../engine/index.js'
import { tableName } from '../../layers/nft-table/index.js'

const families = ['ipv4', 'ipv6'] as const

export interface NftCleanUp {
  /** Families whose table existed and was removed. */
  readonly removed: readonly IpFamily[]
  readonly failures: readonly KernelError[]
}

/** Removes the tables with their content. A failure in one family does not stop the other. */
export async function cleanUpNft(nftChains: NftChains): Promise<NftCleanUp> {
  const removed: IpFamily[] = []
  const failures: KernelError[] = []
  for (const family of families) {
    const isRemoved = await orRefusal(() => nftChains.discardTable(family, tableName))
    if (isRemoved instanceof KernelError) failures.push(isRemoved)
    else if (isRemoved) removed.push(family)
  }
  return { removed, failures }
}

/** `removed the table kube-proxy of nf_tables in IPv4 and IPv6`, for at least one family. */
export function describeCleanedNft(removed: readonly IpFamily[]): string {
  return `removed the table ${tableName} of nf_tables in ${removed.map(logFamily).join(' and ')}`
}
