// The modules of the kernel that the modes need. The doctor asks the kernel about a mode only if no question can load a module.
import type { Config, ProxyMode } from '../config/index.js'
import {
  compatModules,
  extensionModules,
  type KernelModules,
  legacyModules,
  mangleModules,
  setModules,
  type XtFlavour,
} from '../kernel/index.js'

/** The modules of a mode by their state. */
export interface ModeModules {
  /** Installed and not loaded. */
  readonly loadable: readonly string[]
  /** Not loaded, and the mode cannot run without them; whether they are installed is not known. */
  readonly unknown: readonly string[]
  /** Not installed, and the mode cannot run without them. */
  readonly absent: readonly string[]
  /** Installed modules of the mode, extensions of its rules included, that this kernel may load only at the next boot. */
  readonly locked: readonly string[]
  /** Whether no question about the mode can load a module. */
  readonly canAsk: boolean
}

interface Needs {
  readonly required: readonly string[]
  /** Needed for one family or by some kernels only: newer kernels have some of them in nf_tables itself. */
  readonly optional: readonly string[]
}

const legacyNeeds: Needs = { required: legacyModules.ipv4, optional: legacyModules.ipv6 }
/** ipvs mode has rules in mangle too. */
const mangleNeeds: Needs = { required: [mangleModules.ipv4], optional: [mangleModules.ipv6] }
/** Modules that a search for legacy tables which are absent asks for. */
const searchNeeds: readonly string[] = ['nf_tables', 'nft_compat']
const compatNeeds: Needs = { required: compatModules, optional: [] }
const tableNeeds: Needs = {
  required: ['nf_tables', 'nf_nat', 'nft_chain_nat', 'nft_nat', 'nft_masq', 'nft_ct', 'nft_numgen'].concat([
    'nft_fib',
    'nft_fib_ipv4',
    'nft_reject',
    'nft_reject_ipv4',
  ]),
  optional: ['nft_fib_ipv6', 'nft_reject_ipv6', 'nft_counter', 'nft_objref', 'nf_tables_set'],
}

/** The modules that must be loaded before the mode can be opened in the flavour without loading one. */
export function modulesOf(
  modules: Pick<KernelModules, 'state' | 'remedy'>,
  {
    config,
    name,
    flavour,
  }: { readonly config: Config; readonly name: ProxyMode; readonly flavour: XtFlavour },
): ModeModules {
  const { required, optional } = needsOf(name, flavour, config)
  const isLacking = [...required, ...optional].some((module) => modules.state(module) === 'absent')
  const asked = [
    ...required,
    ...optional,
    ...(isLacking && flavour === 'legacy' && name !== 'nftables' ? searchNeeds : []),
  ]
  return {
    loadable: asked.filter((module) => modules.state(module) === 'loadable'),
    unknown: required.filter((module) => modules.state(module) === 'unknown'),
    absent: required.filter((module) => modules.state(module) === 'absent'),
    locked: [...new Set([...required, ...optional, ...extensionsOf(name)])].filter(
      (module) => modules.remedy(module) === 'boot',
    ),
    canAsk: asked.every((module) => ['present', 'absent'].includes(modules.state(module))),
  }
}

function needsOf(name: ProxyMode, flavour: XtFlavour, { ipvs }: Config): Needs {
  switch (name) {
    case 'userspace':
      return { required: [], optional: [] }
    case 'nftables':
      return tableNeeds
    case 'iptables':
      return flavour === 'legacy' ? legacyNeeds : join(compatNeeds, tableNeeds)
    case 'ipvs': {
      const own = {
        required: ['ip_vs', `ip_vs_${ipvs.scheduler || 'rr'}`, ...setModules],
        optional: ['dummy'],
      }
      return join(own, flavour === 'legacy' ? join(legacyNeeds, mangleNeeds) : compatNeeds)
    }
  }
}

/** No question about the mode asks for them: the kernel loads them with the first rule that has them. */
function extensionsOf(name: ProxyMode): readonly string[] {
  return name === 'iptables' || name === 'ipvs' ? extensionModules : []
}

function join(a: Needs, b: Needs): Needs {
  return { required: [...new Set([...a.required, ...b.required])], optional: [...a.optional, ...b.optional] }
}
