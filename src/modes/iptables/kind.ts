import type { ChainNames, ModeKind } from '../../engine/index.js'
import { cleanUpXtables } from '../../layers/shared/index.js'
import { ownedChains } from '../../layers/xtables/index.js'
import { removeFormerGuards } from './former-guard.js'
import { openIptablesMode } from './mode.js'

/**
 * Chains of old releases: policy Local before 1.24, and the userspace mode, which ended with 1.25. kube-proxy before 1.25 made
 * KUBE-MARK-DROP without a rule, for kubelet to fill. kubelet before 1.28 keeps a rule in it, which sets the mark that its
 * KUBE-FIREWALL drops. So the chain is kube-proxy's alone only while it is empty.
 */
const chainsOfOldReleases = {
  nat: [
    'KUBE-XLB-*',
    'KUBE-PORTALS-CONTAINER',
    'KUBE-PORTALS-HOST',
    'KUBE-NODEPORT-CONTAINER',
    'KUBE-NODEPORT-HOST',
    'KUBE-MARK-DROP?',
  ],
  filter: ['KUBE-NODEPORT-NON-LOCAL'],
} as const satisfies ChainNames

/** iptables mode. KUBE-FIREWALL is not among its chains: it is kubelet's too (F-102), and goes only where it is of no use. */
export const iptablesKind: ModeKind = {
  name: 'iptables',
  open: openIptablesMode,
  flavours: ['legacy', 'nft'],
  chains: {
    nat: [...ownedChains.nat, ...chainsOfOldReleases.nat],
    filter: [...ownedChains.filter, ...chainsOfOldReleases.filter],
    mangle: ['KUBE-PROXY-CANARY'],
  },
  lackOf: () => undefined,
  cleanUp: async ({ kernel, chains, flavours }) => {
    const cleaned = await cleanUpXtables(kernel, chains, flavours)
    const guards = await removeFormerGuards(kernel, flavours)
    return {
      text: [cleaned.text, guards.text].filter((text) => text !== '').join('; '),
      hasRemoved: cleaned.hasRemoved || guards.hasRemoved,
      failures: [...cleaned.failures, ...guards.failures],
    }
  },
}
