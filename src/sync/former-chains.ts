// Chains that this mode, or a kube-proxy of any release and mode, may have left in a table of x_tables.
import type { Xtables } from '../kernel/index.js'
import { mangleChains } from '../modes/ipvs/index.js'
import { type IptablesTable, ownedChains } from '../modes/iptables/index.js'

type Names = Readonly<Record<IptablesTable, readonly string[]>>

/** Those of ipvs mode that iptables mode does not have. */
const chainsOfIpvsMode: Names = {
  nat: ['KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER'],
  filter: ['KUBE-NODE-PORT', 'KUBE-SOURCE-RANGES-FIREWALL', 'KUBE-IPVS-FILTER', 'KUBE-IPVS-OUT-FILTER'],
}

/** Those of old releases: policy Local before 1.24, and the userspace mode, which ended with 1.25. */
const chainsOfOldReleases: Names = {
  nat: [
    'KUBE-XLB-*',
    'KUBE-PORTALS-CONTAINER',
    'KUBE-PORTALS-HOST',
    'KUBE-NODEPORT-CONTAINER',
    'KUBE-NODEPORT-HOST',
  ],
  filter: ['KUBE-NODEPORT-NON-LOCAL'],
}

/**
 * Of table nat. kube-proxy before 1.25 made it without a rule, for kubelet to fill; kubelet before 1.28 keeps a rule in it, which sets
 * the mark that its KUBE-FIREWALL drops. So it is kube-proxy's alone while it is empty.
 */
const markDropChain = 'KUBE-MARK-DROP'

/** Chains that are kube-proxy's or ours by their name alone; `*` stands for any rest. Not KUBE-FIREWALL: kubelet's too (F-102). */
export function formerChains(table: IptablesTable): readonly string[] {
  return [...ownedChains[table], ...chainsOfIpvsMode[table], ...chainsOfOldReleases[table]]
}

/** What to prune from the table as it is now. Throws KernelError. */
export async function findFormerChains(door: Xtables): Promise<readonly string[]> {
  switch (door.table) {
    case 'nat':
      return [...formerChains('nat'), ...((await hasEmptyMarkDrop(door)) ? [markDropChain] : [])]
    case 'filter':
      return formerChains('filter')
    case 'mangle':
      return ['KUBE-PROXY-CANARY', ...mangleChains]
    case 'raw':
      return []
  }
}

async function hasEmptyMarkDrop(door: Xtables): Promise<boolean> {
  return (await door.chains()).some(({ chain, rules }) => chain === markDropChain && rules === 0)
}
