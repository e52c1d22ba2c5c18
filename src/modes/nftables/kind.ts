import type { ModeKind } from '../../engine/index.js'
import { cleanUpNft, describeCleanedNft } from './clean-up.js'
import { openNftablesMode } from './mode.js'
import { lackOf } from '../../layers/nft-table/index.js'

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
