import type { Cidr } from '../address.js'
import { KernelError } from '../errors.js'
import { cleanUp, describeCleanUp } from './clean-up.js'
import { cleanUpIptables, describeCleanedTables, describeNftLeftovers } from './iptables-clean-up.js'
import type { ModeKernel } from './mode.js'
import { cleanUpNft, describeCleanedNft } from './nft-clean-up.js'

/** --cleanup: removes what every mode left, each whatever becomes of the others. Throws KernelError when nothing may be read. */
export async function cleanUpAll(
  kernel: ModeKernel,
  excludeCidrs: readonly Cidr[],
): Promise<{ readonly text: string; readonly isComplete: boolean }> {
  const tables = await cleanUpIptables(kernel)
  const ipvs = await cleanUp(kernel, excludeCidrs)
  const nft = await cleanUpNftTables(kernel)
  const text = [describeCleanUp(ipvs), describeCleanedTables(tables), ...nft.sentences].join('; ')
  const isComplete =
    nft.isComplete && ipvs.failures.length === 0 && tables.every(({ error }) => error === undefined)
  return { text, isComplete }
}

/** What iptables-nft has is told only. */
async function cleanUpNftTables({
  nftChains,
}: ModeKernel): Promise<{ readonly sentences: readonly string[]; readonly isComplete: boolean }> {
  const { removed, failures } = await cleanUpNft(nftChains)
  const sentences = removed.length > 0 ? [describeCleanedNft(removed)] : []
  sentences.push(...failures.map(({ message }) => `failed: ${message}`))
  try {
    const leftovers = await describeNftLeftovers(nftChains)
    if (leftovers !== undefined) sentences.push(leftovers)
    return { sentences, isComplete: failures.length === 0 }
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    return { sentences: [...sentences, `failed: ${error.message}`], isComplete: false }
  }
}
