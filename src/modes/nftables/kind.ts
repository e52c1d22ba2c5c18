import type { ModeKind } from '../../engine/index.js'
import type { KernelError } from '../../errors.js'
import { cleanUpNft, describeCleanedNft } from './clean-up.js'
import { openNftablesMode } from './mode.js'
import { isWithoutFeature } from '../nft-table/index.js'

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

function lackOf(error: KernelError): string | undefined {
  if (!isWithoutFeature(error)) return undefined
  return `this kernel's nf_tables lacks what nftables mode needs (${error.object}): load its module, or run a kernel that has it`
}
