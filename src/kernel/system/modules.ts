// The modules of the kernel: which are loaded, and which a request could load.
import { existsSync, readFileSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'

/** The modules of the parts that a plan reads. */
export type PartModule = 'nf_tables' | 'ip_set' | 'ip_vs' | 'tcp_diag' | 'udp_diag'

/**
 * `present`: it is loaded or built in, or this kernel can load none. `loadable`: it is installed and not loaded. `absent`: it is not
 * installed. `unknown`: it is not loaded, and the lists of this kernel's modules are not on this file system.
 */
export type ModuleState = 'present' | 'loadable' | 'absent' | 'unknown'

/** The modules of the running kernel. The lists are read once. */
export class KernelModules {
  readonly #root: string
  #builtIn: ReadonlySet<string> | undefined
  #installed: ReadonlySet<string> | undefined

  /** `root`: the folder that holds proc, sys and lib. */
  constructor(root = '/') {
    this.#root = root
  }

  state(module: string): ModuleState {
    if (!existsSync(join(this.#root, 'proc/modules'))) return 'present'
    if (existsSync(join(this.#root, 'sys/module', module))) return 'present'
    this.#builtIn ??= this.#names('modules.builtin')
    this.#installed ??= this.#names('modules.dep')
    if (this.#builtIn.has(module)) return 'present'
    if (this.#builtIn.size === 0 || this.#installed.size === 0) return 'unknown'
    return this.#installed.has(module) ? 'loadable' : 'absent'
  }

  /** The names at the begin of the lines, such as nft_masq for `kernel/net/netfilter/nft_masq.ko.xz: …`. Empty: no such list. */
  #names(list: string): ReadonlySet<string> {
    try {
      const text = readFileSync(join(this.#root, 'lib/modules', release(), list), 'utf8')
      const files = text.matchAll(/^(?:[^\s:]*\/)?(?<name>[\w-]+)\.ko/gmu)
      return new Set([...files].map(({ groups }) => (groups?.['name'] ?? '').replaceAll('-', '_')))
    } catch {
      return new Set()
    }
  }
}

/** The modules that are not loaded, and whose parts of the kernel count as empty in a plan. */
export function modulesNotLoaded(): readonly PartModule[] {
  return (['nf_tables', 'ip_set', 'ip_vs'] as const).filter((module) => !isLoaded(module))
}

/** Whether a request to the part loads no module. */
export function isLoaded(module: PartModule): boolean {
  return new KernelModules().state(module) === 'present'
}
