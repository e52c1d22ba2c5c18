// Opens the modes in an empty network namespace, to find those that this kernel can run and the settings that they write. A mode whose
// modules are not loaded is opened in a dry run instead.
import { constants, hostname } from 'node:os'
import { Registry } from 'prom-client'
import { systemClock } from '../clock.js'
import type { Config, ProxyMode } from '../config/index.js'
import type { ModeProbe } from '../doctor/index.js'
import type { Mode, OpenModeOptions } from '../engine/index.js'
import { openProblems } from '../engine/index.js'
import { ConfigError, isConfigError, isDenied, KernelError } from '../errors.js'
import { countCpus, setConntrack } from '../host/index.js'
import {
  compatModules,
  describeLack,
  type Kernel,
  type KernelModules,
  type Nftables,
  openKernel,
  type Sysctl,
} from '../kernel/index.js'
import { openMetrics } from '../metrics/index.js'
import { nodeName, NodeTracker, servedPlaces } from '../node/index.js'
import { adviceOn, lackOf } from './advice.js'
import { findFlavour } from './find-flavour.js'
import { modeKinds } from './modes.js'
import { modulesOf, type ModeModules } from './mode-modules.js'
import { absentModule, openMode } from './open-mode.js'
import { silentLog as log } from './silent-log.js'

/** The modules that bring settings. All others belong to the kernel itself. */
const settingOwners = [
  { prefix: 'net/netfilter/nf_conntrack_', module: 'nf_conntrack' },
  { prefix: 'net/ipv4/vs/', module: 'ip_vs' },
] as const

export interface ProbeOptions {
  readonly config: Config
  /** The kernel in this process's namespace, in a dry run: no call changes it or loads a module. */
  readonly kernel: Kernel
  readonly addonPath: string | undefined
  readonly modules: Pick<KernelModules, 'state' | 'remedy' | 'loaderOf' | 'isLocked'>
  /** The mode that an agent runs now, which has loaded all modules of the mode; undefined: no agent answers. */
  readonly running: ProxyMode | undefined
  /** Whether this process may write the setting. */
  readonly canWrite: (path: string) => Promise<boolean>
}

/** Nothing is written in this process's network namespace, and no module is loaded. */
export async function probeModes(options: ProbeOptions): Promise<ModeProbe> {
  const { config, kernel, addonPath, canWrite } = options
  const isolated = openKernel({ addonPath, isIsolated: true })
  try {
    const nftables = flavourQuestions(options, isolated)
    const { flavour, reason: flavourReason } = await findFlavour({
      config,
      kernel: { ...kernel, nftables },
      log,
    })
    const probe = new Probe({ ...options, config: { ...config, iptablesFlavour: flavour } }, isolated)
    const settings = new Map<string, ModeProbe['settings'][number]>()
    const sysctl = recordingSysctl(kernel.sysctl, async (path, value) => {
      const exists = (await kernel.sysctl.read(path)) !== undefined
      if (!exists && comesWithModule(path, options.modules)) return true
      const isAllowed = exists && (await canWrite(path))
      settings.set(path, { path, value, exists, canWrite: isAllowed })
      return isAllowed
    })
    // NB: not on the isolated kernel, where a question would load the modules of connection tracking.
    await recordConntrack(config, { ...kernel, sysctl })
    const chosen = await orReason(options.modules, async () => await probe.open({}, sysctl))
    const others: string[] = []
    const unrecorded = recordingSysctl(kernel.sysctl, () => Promise.resolve(true))
    for (const { name } of modeKinds) {
      if ('name' in chosen && name === chosen.name) continue
      const other = await orReason(
        options.modules,
        async () => await probe.open({ mode: name, modeFallback: false }, unrecorded),
      )
      if ('name' in other && other.unknown.length === 0) others.push(other.title)
    }
    const found = { flavour, flavourReason, others, settings: [...settings.values()] }
    if ('name' in chosen) {
      const { title, problem, notLoaded, unknown, locked } = chosen
      return { ...found, chosen: title, problem, denied: undefined, notLoaded, unknown, locked }
    }
    const { problem, denied } = chosen
    const assumed = denied === undefined ? undefined : assumedTitle(options.running ?? config.mode, flavour)
    return { ...found, chosen: assumed, problem, denied, notLoaded: [], unknown: [], locked: [] }
  } finally {
    await isolated.close()
  }
}

/** The nf_tables that can be asked for nft_compat. Those of a dry run find no problem, as a kernel that loads the modules when it is asked. */
function flavourQuestions({ kernel, modules }: ProbeOptions, isolated: Kernel): Pick<Nftables, 'apply'> {
  const states = compatModules.map((module) => modules.state(module))
  if (states.includes('absent')) {
    const lack = {
      errno: constants.errno.EOPNOTSUPP,
      subsystem: 'nftables',
      operation: 'find nft_compat',
    } as const
    return { apply: async () => await Promise.reject(new KernelError(lack)) }
  }
  return states.every((state) => state === 'present') ? isolated.nftables : kernel.nftables
}

const allLoaded: ModeModules = { loadable: [], unknown: [], absent: [], locked: [], canAsk: true }

/** A mode that can run, as far as this is known without loading a module. */
interface Opened {
  readonly name: ProxyMode
  readonly title: string
  /** One sentence: why it is not the configured mode. */
  readonly problem: string | undefined
  /** Installed modules of the mode that are not loaded. */
  readonly notLoaded: readonly string[]
  /** Modules without which the mode cannot run, not loaded and perhaps not installed. */
  readonly unknown: readonly string[]
  /** As `ModeModules.locked`. */
  readonly locked: readonly string[]
}

/** Opens modes: on the isolated kernel if that loads no module, otherwise in a dry run. */
class Probe {
  readonly #options: ProbeOptions
  readonly #isolated: Kernel

  constructor(options: ProbeOptions, isolated: Kernel) {
    this.#options = options
    this.#isolated = isolated
  }

  /** Opens the configured mode with these settings instead. Throws KernelError or ConfigError. */
  async open(changed: Partial<Pick<Config, 'mode' | 'modeFallback'>>, sysctl: Sysctl): Promise<Opened> {
    const config = { ...this.#options.config, ...changed }
    const notes: string[] = []
    let used = allLoaded
    const dry = openKernel({ addonPath: this.#options.addonPath, dryRun: () => {} })
    try {
      const mode = await openMode(
        {
          config,
          modules: this.#options.modules,
          kernel: { ...dry, sysctl },
          conntrack: Promise.resolve(),
          node: new NodeTracker(
            nodeName(config, hostname()),
            config.bindAddress,
            servedPlaces(config.servers),
          ),
          clock: systemClock,
          log,
          metrics: openMetrics(new Registry()),
          problems: openProblems({ log }),
          events: { record: ({ note }) => void notes.push(note) },
          openHealthChecks: () => ({ sync: () => Promise.resolve([]), stop: () => Promise.resolve() }),
        },
        async (kind, own) => {
          used = this.#modulesOf(kind.name, own)
          if (used.canAsk)
            return await this.#openIsolated(used, async () =>
              kind.open({ ...own, kernel: { ...this.#isolated, sysctl } }),
            )
          if (used.absent.length > 0) throw this.#absence(used)
          return await kind.open(own)
        },
      )
      const { unknown, locked } = used
      const notLoaded = used.loadable.map((module) => this.#withLoader(module))
      return { name: mode.name, title: nameOf(mode), problem: notes[0], notLoaded, unknown, locked }
    } finally {
      await dry.close()
    }
  }

  /** Where the kernel refuses the mode, the error names every module that is missing: the kernel names one at a time. */
  async #openIsolated(used: ModeModules, open: () => Promise<Mode>): Promise<Mode> {
    try {
      return await open()
    } catch (error) {
      if (used.absent.length === 0 || !(error instanceof KernelError) || lackOf(error) === undefined)
        throw error
      throw Object.assign(this.#absence(used), { cause: error })
    }
  }

  /** The modules that are missing, by their remedies. */
  #absence({ absent, locked }: ModeModules): ConfigError {
    const { modules } = this.#options
    const lacks = (['none', 'load', 'unknown'] as const)
      .map((remedy) => absent.filter((module) => modules.remedy(module) === remedy))
      .map((names) => ({ part: names.join(', '), modules: names }))
    const advice = [...lacks, { part: 'modules of the mode', modules: locked }]
      .filter((lack) => lack.modules.length > 0)
      .map((lack) => describeLack(lack, modules))
    return new ConfigError(absentModule, advice.join('; '))
  }

  /** `ip_vs (with xt_ipvs)`: the kernel loads it for that module alone. */
  #withLoader(module: string): string {
    const loader = this.#options.modules.loaderOf(module)
    return loader === undefined ? module : `${module} (with ${loader})`
  }

  #modulesOf(name: ProxyMode, { config, flavour }: Pick<OpenModeOptions, 'config' | 'flavour'>): ModeModules {
    if (name === this.#options.running) return allLoaded
    return modulesOf(this.#options.modules, { config, name, flavour })
  }
}

/** Records the settings of connection tracking. A setting that cannot be written is a finding, not an error. */
async function recordConntrack(config: Config, kernel: Kernel): Promise<void> {
  await setConntrack({
    config: config.conntrack,
    cpus: await countCpus(),
    kernel,
    log,
    events: { record: () => {} },
    nodeName: '',
    isSysfsReadOnly: () => Promise.resolve(false),
  })
}

/** Reads settings, and passes each write to `record`. Throws EACCES if that resolves with false. */
function recordingSysctl(sysctl: Sysctl, record: (path: string, value: string) => Promise<boolean>): Sysctl {
  return {
    read: async (path) => await sysctl.read(path),
    write: async (path, value) => {
      if (await record(path, value)) return
      throw new KernelError({
        errno: constants.errno.EACCES,
        subsystem: 'sysctl',
        operation: 'write',
        object: path,
      })
    },
  }
}

/** Whether a module that is not in the kernel yet may bring the setting. */
function comesWithModule(path: string, modules: ProbeOptions['modules']): boolean {
  const owner = settingOwners.find(({ prefix }) => path.startsWith(prefix))
  return owner !== undefined && ['loadable', 'unknown'].includes(modules.state(owner.module))
}

/** The mode; or why it cannot run, or that this process may not ask. */
async function orReason(
  modules: ProbeOptions['modules'],
  open: () => Promise<Opened>,
): Promise<Opened | Pick<ModeProbe, 'problem' | 'denied'>> {
  try {
    return await open()
  } catch (error) {
    if (error instanceof KernelError && isDenied(error)) return { problem: undefined, denied: error.message }
    if (error instanceof KernelError || isConfigError(error))
      return { problem: adviceOn(error, modules), denied: undefined }
    throw error
  }
}

/** A mode that was not opened, as it would run in the flavour. */
function assumedTitle(name: ProxyMode, flavour: ModeProbe['flavour']): string {
  const hasFlavour = modeKinds.some((kind) => kind.name === name && kind.flavours.includes(flavour))
  return nameOf(hasFlavour ? { name, flavour } : { name })
}

function nameOf({ name, flavour }: { readonly name: ProxyMode; readonly flavour?: Mode['flavour'] }): string {
  return flavour === undefined ? name : `${name} (${flavour})`
}
