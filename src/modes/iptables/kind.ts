import type { ChainNames, ModeKind } from '../../engine/index.js'
import { cleanUpXtables, describeCleanedTables } from '../shared/index.js'
import { ownedChains } from './compile/names.js'
import { openIptablesMode } from './mode.js'

/** Those of old releases: policy Local before 1.24, and the userspace mode, which ended with 1.25. */
const chainsOfOldReleases = {
  nat: [
    'KUBE-XLB-*',
    'KUBE-PORTALS-CONTAINER',
    'KUBE-PORTALS-HOST',
    'KUBE-NODEPORT-CONTAINER',
    'KUBE-NODEPORT-HOST',
  ],
  filter: ['KUBE-NODEPORT-NON-LOCAL'],
} as const satisfies ChainNames

/** iptables mode. KUBE-FIREWALL is not among its chains: it is kubelet's too (F-102). */
export const iptablesKind: ModeKind = {
  name: 'iptables',
  open: openIptablesMode,
  chains: {
    nat: [...ownedChains.nat, ...chainsOfOldReleases.nat],
    filter: [...ownedChains.filter, ...chainsOfOldReleases.filter],
    mangle: ['KUBE-PROXY-CANARY'],
  },
  lackOf: () => undefined,
  cleanUp: async ({ kernel, chains }) => {
    const cleaned = await cleanUpXtables(kernel, chains)
    const gone = cleaned.filter(({ removed }) => removed.length > 0)
    return {
      text: describeCleanedTables(cleaned),
      removed: gone.length === 0 ? undefined : describeCleanedTables(gone),
      failures: cleaned.map(({ error }) => error).filter((error) => error !== undefined),
    }
  },
}
