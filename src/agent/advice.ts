import { isConfigError, isDenied, KernelError } from '../errors.js'
import { isWithoutNftCompat, isWithoutXtables } from '../host/index.js'
import {
  compatModules,
  describeLack,
  type KernelLack,
  KernelModules,
  legacyModules,
} from '../kernel/index.js'
import { modeKinds } from './modes.js'

/** The paths of ConfigErrors that advise to load a module. */
const aboutModules: ReadonlySet<string> = new Set(['ipvs-scheduler', 'vip-binding'])

/** The modules of the kernel, by which the advice to load one is right. */
export type AdviceModules = Pick<KernelModules, 'remedy' | 'isLocked'>

/** One sentence about an error that ends the agent: the problem and its remedy. */
export function adviceOn(error: unknown, modules: AdviceModules = new KernelModules()): string {
  if (isConfigError(error))
    return aboutModules.has(error.path) && modules.isLocked
      ? `${error.message} (kernel.modules_disabled is 1: a module can be loaded only at the next boot)`
      : error.message
  if (!(error instanceof KernelError))
    return error instanceof Error ? (error.stack ?? error.message) : String(error)
  if (isDenied(error)) {
    return `CAP_NET_ADMIN is missing: run as root, or give the container that capability (${error.message})`
  }
  const lack = lackOf(error)
  return lack === undefined ? error.message : `${describeLack(lack, modules)} (${error.message})`
}

/** The part that the kernel lacks for a mode. undefined: the error has another reason. */
export function lackOf(error: KernelError): KernelLack | undefined {
  if (isWithoutXtables(error))
    return { part: 'legacy x_tables', modules: legacyModules[error.family === 'ipv6' ? 'ipv6' : 'ipv4'] }
  if (isWithoutNftCompat(error)) return { part: 'nft_compat', modules: compatModules }
  for (const kind of modeKinds) {
    const lack = kind.lackOf(error)
    if (lack !== undefined) return lack
  }
  return undefined
}
