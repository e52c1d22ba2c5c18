// The modules of the kernel, and those that a request could make it load. Dry runs and the doctor send only requests that load nothing.
import { existsSync, readFileSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import type { IpFamily } from '../../address.js'

/** The modules of the parts that a dry run reads. */
export type PartModule = 'nf_tables' | 'ip_set' | 'ip_vs' | 'tcp_diag' | 'udp_diag'

/**
 * `present`: it is loaded or built in; also if this kernel can load no module, and its list of built-in ones is not on this file system.
 * `loadable`: it is installed and not loaded. `absent`: it is not loaded, and no request can load it. `unknown`: it is not loaded, and the
 * lists of this kernel's modules are not on this file system.
 */
export type ModuleState = 'present' | 'loadable' | 'absent' | 'unknown'

/**
 * The way in which an operator can bring a module. `present`: the kernel has it. `load`: modprobe. `boot`: a line in /etc/modules-load.d and a
 * reboot, because this kernel may load no module any more. `none`: it is not installed. `unknown`: the lists of this kernel's modules are not
 * on this file system.
 */
export type ModuleRemedy = 'present' | 'load' | 'boot' | 'none' | 'unknown'

type Names = ReadonlySet<string>

/** The module by which the kernel loads IP_VS where no request names IP_VS itself: before Linux 5.16 (native/ipvs/ipvs_socket.cc). */
const matchModule = 'xt_ipvs'
/** The alias by which a request for IP_VS loads it, since Linux 5.16. */
const ipvsAlias = 'net-pf-16-proto-16-family-IPVS'

/** The modules of the running kernel, as its files list them. */
export class KernelModules {
  readonly #root: string
  readonly #used: readonly string[]
  /** Read once. */
  #lists: { readonly builtIn: Names | undefined; readonly installed: Names | undefined } | undefined
  /** Whether a request for IP_VS itself loads it. Read once. */
  #hasIpvsAlias: boolean | undefined

  /** `root`: the root of the file system. `used`: modules that a program uses now, and so are present. */
  constructor(root = '/', used: readonly string[] = []) {
    this.#root = root
    this.#used = used
  }

  /** False: the kernel was built without modules, or has switched their loading off. No request can make it load one. */
  get canLoad(): boolean {
    return this.hasFile('proc/modules') && !this.isLocked
  }

  /** Whether loading is switched off until the next boot (kernel.modules_disabled). */
  get isLocked(): boolean {
    return this.#read('proc/sys/kernel/modules_disabled')?.trim() === '1'
  }

  state(module: string): ModuleState {
    if (this.#isLoaded(module)) return 'present'
    const { builtIn, installed } = this.#readLists()
    if (builtIn?.has(module) === true) return 'present'
    if (!this.canLoad) return builtIn === undefined ? 'present' : 'absent'
    if (builtIn === undefined || installed === undefined) return 'unknown'
    const loader = this.loaderOf(module)
    return installed.has(module) && (loader === undefined || installed.has(loader)) ? 'loadable' : 'absent'
  }

  /** The module whose request loads this module too; undefined: a request for the module itself loads it. */
  loaderOf(module: string): string | undefined {
    if (module !== 'ip_vs') return undefined
    const aliases = (): string | undefined => this.#read('lib/modules', release(), 'modules.alias')
    this.#hasIpvsAlias ??= aliases()?.includes(`alias ${ipvsAlias} `) ?? true
    return this.#hasIpvsAlias ? undefined : matchModule
  }

  remedy(module: string): ModuleRemedy {
    const { builtIn, installed } = this.#readLists()
    if (this.#isLoaded(module) || builtIn?.has(module) === true) return 'present'
    if (!this.hasFile('proc/modules')) return 'none'
    if (installed?.has(module) === false) return 'none'
    if (!this.canLoad) return 'boot'
    return installed === undefined ? 'unknown' : 'load'
  }

  #isLoaded(module: string): boolean {
    return this.#used.includes(module) || this.hasFile(`sys/module/${module}`)
  }

  #readLists(): { readonly builtIn: Names | undefined; readonly installed: Names | undefined } {
    return (this.#lists ??= {
      builtIn: this.#names('modules.builtin'),
      installed: this.#names('modules.dep'),
    })
  }

  /** Whether a request to the module's part loads nothing. */
  canAsk(module: string): boolean {
    return ['present', 'absent'].includes(this.state(module))
  }

  /** The modules whose parts of the kernel a dry run does not ask, but takes as empty. */
  notLoaded(): readonly PartModule[] {
    return (['nf_tables', 'ip_set', 'ip_vs'] as const).filter((module) => !this.canAsk(module))
  }

  /** Whether a file of the kernel exists; its path begins at the root. */
  hasFile(path: string): boolean {
    return existsSync(join(this.#root, path))
  }

  /** The names at the begin of the lines, such as nft_masq for `kernel/net/netfilter/nft_masq.ko.xz: …`. */
  #names(list: string): Names | undefined {
    const files = this.#read('lib/modules', release(), list)?.matchAll(
      /^(?:[^\s:]*\/)?(?<name>[\w-]+)\.ko/gmu,
    )
    return files && new Set([...files].map(({ groups }) => (groups?.['name'] ?? '').replaceAll('-', '_')))
  }

  /** undefined: the file cannot be read. */
  #read(...parts: readonly string[]): string | undefined {
    try {
      return readFileSync(join(this.#root, ...parts), 'utf8')
    } catch {
      return undefined
    }
  }
}

/** Whether the kernel has no legacy tables of the family, and cannot load their module. */
export function isWithoutLegacy(family: IpFamily, modules: KernelModules): boolean {
  const module = family === 'ipv4' ? 'ip_tables' : 'ip6_tables'
  return (
    !modules.hasFile(`proc/net/${module}_names`) && (!modules.canLoad || modules.state(module) === 'absent')
  )
}

/** The legacy tables nat and filter of a family. */
export const legacyModules: Readonly<Record<IpFamily, readonly string[]>> = {
  ipv4: ['x_tables', 'ip_tables', 'iptable_nat', 'iptable_filter'],
  ipv6: ['x_tables', 'ip6_tables', 'ip6table_nat', 'ip6table_filter'],
}

/** The table mangle beside them. */
export const mangleModules: Readonly<Record<IpFamily, string>> = {
  ipv4: 'iptable_mangle',
  ipv6: 'ip6table_mangle',
}

/** Rules of x_tables in nf_tables: the modules that the question for nft_compat needs. */
export const compatModules: readonly string[] = ['nf_tables', 'x_tables', 'nft_compat', 'xt_comment']

/** The sets of ipvs mode, and the rules that read them. */
export const setModules: readonly string[] = ['ip_set', 'xt_set'].concat(
  ['bitmap_port', 'hash_ip', 'hash_ipport', 'hash_ipportip', 'hash_ipportnet'].map(
    (type) => `ip_set_${type}`,
  ),
)

/** The extensions of the rules of iptables and ipvs mode, by their names since Linux 5.2. An older kernel has some of them in other modules. */
export const extensionModules: readonly string[] = [
  'xt_addrtype',
  'xt_comment',
  'xt_conntrack',
  'xt_mark',
  'xt_MASQUERADE',
  'xt_nat',
  'xt_recent',
  'xt_statistic',
  'xt_tcpudp',
  'ipt_REJECT',
  'ip6t_REJECT',
]

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
