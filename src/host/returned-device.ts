import { KernelError, orRefusal } from '../errors.js'
import type { Links } from '../kernel/index.js'
import type { StateReporter } from '../log.js'
import { dummyDeviceName } from './machine-addresses.js'

/**
 * Reports a dummy device of kube-proxy's ipvs mode, for a mode that has removed it: kube-proxy makes it again at each sync. Never throws
 * KernelError: if the device cannot be looked for, the report stays as it is.
 */
export async function reportReturnedDevice(
  links: Pick<Links, 'find'>,
  conflicts: StateReporter,
): Promise<void> {
  const found = await orRefusal(async () => await links.find(dummyDeviceName))
  if (found instanceof KernelError) return
  const text = `the device ${dummyDeviceName} has come back: stop the kube-proxy in ipvs mode that makes it, and restart Viaduct, which removes it`
  conflicts.report('device', found?.kind === 'dummy' ? { text } : undefined)
}
