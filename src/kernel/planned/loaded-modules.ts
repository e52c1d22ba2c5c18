// Whether a request to a part of the kernel can make it load a module. A plan sends only requests that cannot.
import { existsSync, readFileSync } from 'node:fs'
import { release } from 'node:os'

/** The modules of the parts that a plan reads. */
export type PartModule = 'nf_tables' | 'ip_set' | 'ip_vs' | 'tcp_diag' | 'udp_diag'

/** The modules that are not loaded, and whose parts of the kernel count as empty in a plan. */
export function modulesNotLoaded(): readonly PartModule[] {
  return (['nf_tables', 'ip_set', 'ip_vs'] as const).filter((module) => !isLoaded(module))
}

/** Whether the part is in the kernel now: its module is loaded or built in, or the kernel has no modules at all. */
export function isLoaded(module: PartModule): boolean {
  if (!existsSync('/proc/modules') || existsSync(`/sys/module/${module}`)) return true
  try {
    return readFileSync(`/lib/modules/${release()}/modules.builtin`, 'utf8').includes(`/${module}.ko`)
  } catch {
    return false // the list is not on this file system: without it no request is safe
  }
}
