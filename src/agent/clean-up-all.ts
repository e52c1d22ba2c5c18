import type { Cidr } from '../address.js'
import { KernelError, orRefusal } from '../errors.js'
import type { ModeKernel } from '../engine/index.js'
import { takeBackLocalnet } from '../host/index.js'
import { adviceOn } from './advice.js'
import { formerChains, modeKinds, xtFlavours } from './modes.js'
import { silentLog } from './silent-log.js'

/**
 * --cleanup: removes the leftovers of every mode, even after a failure of another mode, and takes back route_localnet if Viaduct set it.
 * Never throws KernelError.
 */
export async function cleanUpAll(
  kernel: ModeKernel,
  excludeCidrs: readonly Cidr[],
): Promise<{ readonly text: string; readonly isComplete: boolean }> {
  const sentences: string[] = []
  const failures = new Set<string>()
  for (const { cleanUp } of modeKinds) {
    const outcome = await orRefusal(() =>
      cleanUp({ kernel, excludeCidrs, flavours: xtFlavours, chains: formerChains }),
    )
    if (outcome instanceof KernelError) {
      failures.add(adviceOn(outcome))
      continue
    }
    if (outcome.text !== '') sentences.push(outcome.text)
    for (const failure of outcome.failures) failures.add(failure)
  }
  const refusal = await takeBackLocalnet({ kernel, log: silentLog })
  if (refusal !== undefined) failures.add(adviceOn(refusal))
  const failed = [...failures].map((failure) => `failed: ${failure}`)
  return { text: [...sentences, ...failed].join('; '), isComplete: failures.size === 0 }
}
