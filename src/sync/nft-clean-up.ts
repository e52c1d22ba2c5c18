// What kube-proxy's nftables mode leaves behind: a table of each family (F-101, F-102).
import type { IpFamily } from '../address.js'
import type { NftChains } from '../kernel/index.js'
import { type LeftoverReport, leaving, type ModeOptions } from './mode.js'
import { logFamily } from './sync-report.js'

const families = ['ipv4', 'ipv6'] as const
/** In the families `ip` and `ip6`; nobody else may use that name. */
const table = 'kube-proxy'

/** Removes them with all that is in them. Throws KernelError. */
export async function cleanUpNft(nftChains: NftChains): Promise<readonly IpFamily[]> {
  const removed: IpFamily[] = []
  for (const family of families) if (await nftChains.discardTable(family, table)) removed.push(family)
  return removed
}

/** Of at least one: `removed the table kube-proxy of nf_tables in IPv4 and IPv6`. */
export function describeCleanedNft(removed: readonly IpFamily[]): string {
  return `removed the table ${table} of nf_tables in ${removed.map(logFamily).join(' and ')}`
}

/** The part of `leaveOthers` that any mode but nftables has. */
export function leavingNft({ kernel, log }: Pick<ModeOptions, 'kernel' | 'log'>): () => Promise<boolean> {
  return leaving('nftables', log, async (): Promise<LeftoverReport> => {
    const removed = await cleanUpNft(kernel.nftChains)
    return { removed: removed.length === 0 ? undefined : describeCleanedNft(removed), failures: [] }
  })
}
