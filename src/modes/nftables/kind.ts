import type { ModeKind } from '../../engine/index.js'
import { cleanUpNft, describeCleanedNft } from './clean-up.js'

/** nftables mode: what kube-proxy's left can be removed; this build cannot run the mode. */
export const nftablesKind: ModeKind = {
  name: 'nftables',
  chains: {},
  lackOf: () => undefined,
  cleanUp: async ({ kernel }) => {
    const { removed, failures } = await cleanUpNft(kernel.nftChains)
    const text = removed.length === 0 ? undefined : describeCleanedNft(removed)
    const messages = failures.map(({ message }) => message)
    const sentences = [
      ...(text === undefined ? [] : [text]),
      ...messages.map((message) => `failed: ${message}`),
    ]
    return { text: sentences.join('; '), removed: text, failures: messages }
  },
}
