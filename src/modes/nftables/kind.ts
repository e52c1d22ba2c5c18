import { type ModeKind, logFamily } from '../../engine/index.js'
import { lackOf, tableName } from '../../layers/nft-table/index.js'
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { NftChains } from '../../kernel/index.js'
import { openNftablesMode } from './mode.js'

/** nftables mode. The clean-up removes the tables of the mode, ours or kube-proxy's. */
export const nftablesKind: ModeKind = {
  name: 'nftables',
  open: openNftablesMode,
  flavours: [],
  chains: {},
  lackOf,
  cleanUp: async ({ kernel }) => {
    const { removed, failures } = await cleanUpNft(kernel.nftChains)
    const hasRemoved = removed.length > 0
    return {
      text: hasRemoved ? describeCleanedNft(removed) : '',
      hasRemoved,
      failures: failures.map(({ message }) => message),
    }
  },
}

const families = ['ipv4', 'ipv6'] as const

interface NftCleanUp {
  /** Families whose table existed and was removed. */
  readonly removed: readonly IpFamily[]
  readonly failures: readonly KernelError[]
}

/** Removes the tables with their content. A failure in one family does not stop the other. */
async function cleanUpNft(nftChains: NftChains): Promise<NftCleanUp> {
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
function describeCleanedNft(removed: readonly IpFamily[]): string {
  return `removed the table ${tableName} of nf_tables in ${removed.map(logFamily).join(' and ')}`
}
