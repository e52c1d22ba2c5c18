import type { Cidr } from '../address.js'
import { KernelError } from '../errors.js'
import type { ModeKernel } from '../engine/index.js'
import { describeNftLeftovers } from '../modes/shared/index.js'
import { formerChains, modeKinds } from './modes.js'

/** --cleanup: removes what every mode left, each whatever becomes of the others. Throws KernelError when nothing may be read. */
export async function cleanUpAll(
  kernel: ModeKernel,
  excludeCidrs: readonly Cidr[],
): Promise<{ readonly text: string; readonly isComplete: boolean }> {
  const sentences: string[] = []
  let isComplete = true
  for (const { cleanUp } of modeKinds) {
    const { text, failures } = await cleanUp({ kernel, excludeCidrs, chains: formerChains })
    if (text !== '') sentences.push(text)
    isComplete &&= failures.length === 0
  }
  try {
    // Reported only: other programs have rules there.
    const leftovers = await describeNftLeftovers(kernel.nftChains, formerChains)
    if (leftovers !== undefined) sentences.push(leftovers)
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    sentences.push(`failed: ${error.message}`)
    isComplete = false
  }
  return { text: sentences.join('; '), isComplete }
}
