import type { Cidr } from '../address.js'
import { KernelError } from '../errors.js'
import { cleanUp, describeCleanUp } from './clean-up.js'
import { cleanUpIptables, describeCleanedTables, describeNftLeftovers } from './iptables-clean-up.js'
import type { ModeKernel } from './mode.js'

/** --cleanup: removes what every mode left, each whatever becomes of the others. Throws KernelError when nothing may be read. */
export async function cleanUpAll(
  kernel: ModeKernel,
  excludeCidrs: readonly Cidr[],
): Promise<{ readonly text: string; readonly isComplete: boolean }> {
  const tables = await cleanUpIptables(kernel)
  const ipvs = await cleanUp(kernel, excludeCidrs)
  const sentences = [describeCleanUp(ipvs), describeCleanedTables(tables)]
  let isListed = true
  try {
    const nft = await describeNftLeftovers(kernel.nftChains)
    if (nft !== undefined) sentences.push(nft)
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    isListed = false
    sentences.push(`chains of nf_tables could not be listed: ${error.message}`)
  }
  const isComplete =
    isListed && ipvs.failures.length === 0 && tables.every(({ error }) => error === undefined)
  return { text: sentences.join('; '), isComplete }
}
