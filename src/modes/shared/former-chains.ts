// Chains that any mode, ours or kube-proxy's of any release, may have left in a table of x_tables.
import type { ChainNames } from '../../engine/index.js'
import type { Xtables } from '../../kernel/index.js'

/**
 * Of table nat. kube-proxy before 1.25 made it without a rule, for kubelet to fill; kubelet before 1.28 keeps a rule in it, which sets
 * the mark that its KUBE-FIREWALL drops. So it is kube-proxy's alone while it is empty.
 */
const markDropChain = 'KUBE-MARK-DROP'

/** What to prune from the table as it is now. Throws KernelError. */
export async function findFormerChains(door: Xtables, chains: ChainNames): Promise<readonly string[]> {
  const names = chains[door.table] ?? []
  return door.table === 'nat' && (await hasEmptyMarkDrop(door)) ? [...names, markDropChain] : names
}

async function hasEmptyMarkDrop(door: Xtables): Promise<boolean> {
  return (await door.chains()).some(({ chain, rules }) => chain === markDropChain && rules === 0)
}
