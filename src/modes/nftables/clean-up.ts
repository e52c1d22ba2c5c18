// What kube-proxy's nftables mode leaves behind: a table of each family (F-101, F-102).
import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { NftChains } from '../../kernel/index.js'
import { logFamily } from '../../engine/index.js'

const families = ['ipv4', 'ipv6'] as const
/** In the families `ip` and `ip6`; the name is kube-proxy's. */
const table = 'kube-proxy'

export interface NftCleanUp {
  /** Families whose table was there, and is gone. */
  readonly removed: readonly IpFamily[]
  readonly failures: readonly KernelError[]
}

/** Removes them with all that is in them, each whatever becomes of the other. */
export async function cleanUpNft(nftChains: NftChains): Promise<NftCleanUp> {
  const removed: IpFamily[] = []
  const failures: KernelError[] = []
  for (const family of families) {
    try {
      if (await nftChains.discardTable(family, table)) removed.push(family)
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      failures.push(error)
    }
  }
  return { removed, failures }
}

/** Of at least one: `removed the table kube-proxy of nf_tables in IPv4 and IPv6`. */
export function describeCleanedNft(removed: readonly IpFamily[]): string {
  return `removed the table ${table} of nf_tables in ${removed.map(logFamily).join(' and ')}`
}
