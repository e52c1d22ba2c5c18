import { isPermanent, KernelError, orRefusal } from '../errors.js'
import { type ChosenFlavour, chooseFlavour, type FlavourKernel } from '../host/index.js'
import type { OpenModeOptions } from '../engine/index.js'

/**
 * Finds the flavour of x_tables to use. If the kernel cannot be asked, legacy, with a warning. Throws KernelError for a transient
 * failure.
 */
export async function findFlavour({
  config,
  kernel,
  log,
}: Pick<OpenModeOptions, 'config' | 'log'> & { readonly kernel: FlavourKernel }): Promise<ChosenFlavour> {
  const found = await orRefusal(async () => await chooseFlavour(kernel, config.iptablesFlavour), isPermanent)
  if (!(found instanceof KernelError)) return found
  log.warn('Flavour of iptables cannot be found: the agent assumes legacy', { err: found })
  return { flavour: 'legacy', reason: 'the kernel could not be asked' }
}
