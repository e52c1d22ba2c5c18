// Advice where the kernel lacks a part: whether the operator can load its module, and when.
import type { KernelModules } from './modules.js'

/** A part that the kernel lacks. */
export interface KernelLack {
  /** The part, as in `this kernel has no IP_VS`. */
  readonly part: string
  /** The modules that have the part, as far as they are known. */
  readonly modules: readonly string[]
  /** Another remedy, as in `or use --proxy-mode=iptables`. Default: another kernel. */
  readonly instead?: string
}

/** One sentence: what the kernel lacks, and the remedy, by the modules that are installed. */
export function describeLack(
  { part, modules: names, instead = 'run a kernel that has it' }: KernelLack,
  modules: Pick<KernelModules, 'remedy'>,
): string {
  const remedies = names.map((name) => modules.remedy(name))
  const listed = names.join(' ')
  if (names.length === 0 || remedies.includes('none')) return `this kernel has no ${part}: ${instead}`
  if (remedies.includes('boot'))
    return `this kernel has not loaded ${part}, and kernel.modules_disabled forbids it until the next boot: name ${names.join(' and ')} in a file of /etc/modules-load.d and reboot, or ${instead}`
  const command = `load it with "modprobe ${names.length > 1 ? '-a ' : ''}${listed}"`
  return remedies.includes('unknown')
    ? `this kernel has no ${part}, or has not loaded it: ${command}, or ${instead}`
    : `this kernel has not loaded ${part}: ${command}, and name ${names.join(' and ')} in a file of /etc/modules-load.d`
}
