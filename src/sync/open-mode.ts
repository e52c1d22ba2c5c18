// Which proxy mode runs: the one that is named, or the first that this kernel can run.
import { ConfigError, KernelError } from '../errors.js'
import { adviceOn } from './advice.js'
import { isWithoutIpvs } from './clean-up.js'
import { isWithoutXtables } from './find-xtables.js'
import { openIptablesMode } from './iptables-mode.js'
import { openIpvsMode } from './ipvs-mode.js'
import type { Mode, OpenModeOptions } from './mode.js'
import { isWithoutIpset } from './set-types.js'

/** Makes the kernel ready. Throws ConfigError or KernelError where the mode, or every one of them, cannot work on it. */
export async function openMode(options: OpenModeOptions): Promise<Mode> {
  const { config, log } = options
  if (config.mode === 'iptables') return await openIptablesMode(options)
  if (config.mode === 'ipvs') return await openIpvsMode(options)
  try {
    return await openIpvsMode(options)
  } catch (error) {
    if (!isForAnotherMode(error)) throw error
    const mode = await openLast(options, error)
    log.warn(`ipvs mode cannot run here, iptables mode runs instead: ${adviceOn(error)}`)
    return mode
  }
}

async function openLast(options: OpenModeOptions, former: unknown): Promise<Mode> {
  try {
    return await openIptablesMode(options)
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    throw new ConfigError('', `no mode can run here: ipvs: ${adviceOn(former)}; iptables: ${adviceOn(error)}`)
  }
}

/** The kernel lacks what ipvs mode needs; what any mode would lack is nothing to fall back from. */
function isForAnotherMode(error: unknown): boolean {
  if (error instanceof KernelError)
    return isWithoutIpvs(error) || isWithoutIpset(error) || isWithoutXtables(error)
  return error instanceof ConfigError && ['ipvs-scheduler', 'vip-binding'].includes(error.path)
}
