import type { ModeKind } from '../../engine/index.js'
import { cleanUpNft, describeCleanedNft } from './clean-up.js'

/** nftables mode. The clean-up removes kube-proxy's tables. This build cannot run the mode. */
export const nftablesKind: ModeKind = {
  name: 'nftables',
  chains: {},
  lackOf: () => undefined,
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
