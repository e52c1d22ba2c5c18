// The modules of the kernel, and those that a request could make it load. A plan sends only requests that load nothing.
import { existsSync, readFileSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import type { IpFamily } from '../../address.js'

/** The modules of the parts that a plan reads. */
export type PartModule = 'nf_tables' | 'ip_set' | 'ip_vs' | 'tcp_diag' | 'udp_diag'

/** The modules of the running kernel, as its files list them. */
export class KernelModules {
  readonly #root: string
  /** modules.builtin and modules.dep, read once; undefined: they are not on this file system. */
  #lists: { readonly builtIn: string; readonly files: string } | undefined
  #hasRead = false

  /** `root`: the root of the file system. */
  constructor(root = '/') {
    this.#root = root
  }

  /** False: the kernel was built without modules, or has switched their loading off. No request can make it load one. */
  get canLoad(): boolean {
    if (!this.hasFile('proc/modules')) return false
    return this.#read('proc/sys/kernel/modules_disabled')?.trim() !== '1'
  }

  /** Whether a request to the module's part loads nothing: the module is in the kernel, or the kernel cannot load it. */
  canAsk(module: string): boolean {
    return !this.canLoad || this.#isPresent(module) || this.isAbsent(module)
  }

  /** Whether the kernel certainly lacks the module and cannot load it. False if the lists of modules are not on this file system. */
  isAbsent(module: string): boolean {
    if (this.#isPresent(module)) return false
    const lists = this.#readLists()
    return lists !== undefined && !names(lists.files, module)
  }

  /** The modules whose parts of the kernel a plan does not ask, but takes as empty. */
  notLoaded(): readonly PartModule[] {
    return (['nf_tables', 'ip_set', 'ip_vs'] as const).filter((module) => !this.canAsk(module))
  }

  /** Whether a file of the kernel exists; its path begins at the root. */
  hasFile(path: string): boolean {
    return existsSync(this.#path(path))
  }

  #isPresent(module: string): boolean {
    if (this.hasFile(`sys/module/${module}`)) return true
    const lists = this.#readLists()
    return lists !== undefined && names(lists.builtIn, module)
  }

  #readLists(): { readonly builtIn: string; readonly files: string } | undefined {
    if (this.#hasRead) return this.#lists
    this.#hasRead = true
    const builtIn = this.#read('lib/modules', release(), 'modules.builtin')
    const files = this.#read('lib/modules', release(), 'modules.dep')
    if (builtIn !== undefined && files !== undefined) this.#lists = { builtIn, files }
    return this.#lists
  }

  #path(...parts: readonly string[]): string {
    return join(this.#root, ...parts)
  }

  /** undefined: the file cannot be read. */
  #read(...parts: readonly string[]): string | undefined {
    try {
      return readFileSync(this.#path(...parts), 'utf8')
    } catch {
      return undefined
    }
  }
}

/** Whether the kernel has no legacy tables of the family, and cannot load their module. */
export function isWithoutLegacy(family: IpFamily, modules: KernelModules): boolean {
  const module = family === 'ipv4' ? 'ip_tables' : 'ip6_tables'
  return !modules.hasFile(`proc/net/${module}_names`) && (!modules.canLoad || modules.isAbsent(module))
}

/** `kernel/net/netfilter/ipvs/ip_vs.ko.xz: …`. */
function names(list: string, module: string): boolean {
  return list.includes(`/${module}.ko`)
}
