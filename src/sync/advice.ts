import { isConfigError, KernelError } from '../errors.js'
import { isWithoutIpvs } from './clean-up.js'
import { isWithoutXtables } from './find-xtables.js'
import { isWithoutIpset } from './set-types.js'

/** One sentence on an error that ends the agent: what is wrong, and what to do. */
export function adviceOn(error: unknown): string {
  if (isConfigError(error)) return error.message
  if (!(error instanceof KernelError))
    return error instanceof Error ? (error.stack ?? error.message) : String(error)
  if (error.code === 'EPERM' || error.code === 'EACCES') {
    return `CAP_NET_ADMIN is missing: run as root, or give the container that capability (${error.message})`
  }
  if (isWithoutIpvs(error)) {
    return `this kernel has no IP_VS: load it with "modprobe ip_vs", or run a kernel that has it (${error.message})`
  }
  if (isWithoutIpset(error)) {
    const lack =
      error.code === 'EPROTONOSUPPORT'
        ? 'has no ipset: load it with "modprobe ip_set"'
        : 'lacks a type of sets: load it'
    return `this kernel ${lack}, or use --proxy-mode=iptables (${error.message})`
  }
  if (isWithoutXtables(error)) {
    return `this kernel has no legacy x_tables: load it with "modprobe ip_tables", or run a kernel that has it (${error.message})`
  }
  return error.message
}
