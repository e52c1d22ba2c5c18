import { isConfigError, isDenied, KernelError } from '../errors.js'
import { isWithoutNftCompat, isWithoutXtables } from '../host/index.js'
import { modeKinds } from './modes.js'

/** One sentence about an error that ends the agent: the problem and its remedy. */
export function adviceOn(error: unknown): string {
  if (isConfigError(error)) return error.message
  if (!(error instanceof KernelError))
    return error instanceof Error ? (error.stack ?? error.message) : String(error)
  if (isDenied(error)) {
    return `CAP_NET_ADMIN is missing: run as root, or give the container that capability (${error.message})`
  }
  const lack = lackOf(error)
  return lack === undefined ? error.message : `${lack} (${error.message})`
}

/** One sentence on the feature that the kernel lacks for a mode, and the remedy. undefined: the error has another reason. */
export function lackOf(error: KernelError): string | undefined {
  if (isWithoutXtables(error))
    return 'this kernel has no legacy x_tables: load it with "modprobe ip_tables", or run a kernel that has it'
  if (isWithoutNftCompat(error))
    return 'this kernel has no nft_compat: load it with "modprobe nft_compat", or run a kernel that has it'
  for (const kind of modeKinds) {
    const lack = kind.lackOf(error)
    if (lack !== undefined) return lack
  }
  return undefined
}
