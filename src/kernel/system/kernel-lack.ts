// Advice where the kernel lacks a part: whether the operator can load its modules, and when.
import type { KernelModules, ModuleRemedy } from './modules.js'

/** A part that the kernel lacks. */
export interface KernelLack {
  /** The part, as in `this kernel has no IP_VS`. */
  readonly part: string
  /** All modules that have the part, as far as they are known. Those that are in the kernel are not named. */
  readonly modules: readonly string[]
  /** Another remedy, as in `or use --proxy-mode=iptables`. Default: another kernel. */
  readonly instead?: string
}

/** One sentence: what the kernel lacks, and the remedy, by the modules that are installed. */
export function describeLack(
  { part, modules: names, instead = 'run a kernel that has it' }: KernelLack,
  modules: Pick<KernelModules, 'remedy'>,
): string {
  const remedies = new Map(names.map((name) => [name, modules.remedy(name)]))
  const having = (wanted: ModuleRemedy): readonly string[] =>
    names.filter((name) => remedies.get(name) === wanted)
  const present = having('present')
  const missing = names.filter((name) => remedies.get(name) !== 'present')
  if (missing.length === 0 && present.length > 0)
    return `this kernel lacks ${part}, although it has ${listed(present)}: ${instead}`
  if (missing.length === 0 || having('none').length > 0) return `this kernel has no ${part}: ${instead}`
  const file = `name ${listed(missing)} in a file of /etc/modules-load.d`
  if (having('boot').length > 0)
    return `this kernel has not loaded ${part}, and kernel.modules_disabled forbids it until the next boot: ${file} and reboot, or ${instead}`
  const command = `load it with "modprobe ${missing.length > 1 ? '-a ' : ''}${missing.join(' ')}"`
  return having('unknown').length > 0
    ? `this kernel has no ${part}, or has not loaded it: ${command}, or ${instead}`
    : `this kernel has not loaded ${part}: ${command}, and ${file}`
}

/** `a`, `a and b`, `a, b and c`. */
function listed(names: readonly string[]): string {
  const last = names.at(-1) ?? ''
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`
}
