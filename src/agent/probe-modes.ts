// Opens the modes in an empty network namespace, to find those that this kernel can run and the settings that they write.
import { constants, hostname } from 'node:os'
import { Registry } from 'prom-client'
import { systemClock } from '../clock.js'
import type { Config, ProxyMode } from '../config/index.js'
import type { ModeProbe } from '../doctor/index.js'
import type { Mode } from '../engine/index.js'
import { openProblems } from '../engine/index.js'
import { isConfigError, KernelError } from '../errors.js'
import { countCpus, setConntrack } from '../host/index.js'
import { type Kernel, openKernel, type Sysctl } from '../kernel/index.js'
import { openMetrics } from '../metrics/index.js'
import { nodeName, NodeTracker } from '../node/index.js'
import { adviceOn } from './advice.js'
import { findFlavour } from './find-flavour.js'
import { modeKinds } from './modes.js'
import { openMode } from './open-mode.js'
import { silentLog as log } from './silent-log.js'

export interface ProbeOptions {
  readonly config: Config
  /** The kernel in this process's namespace, which is only read. */
  readonly kernel: Kernel
  readonly addonPath: string | undefined
  /** Whether this process may write the setting. */
  readonly canWrite: (path: string) => Promise<boolean>
}

/** Nothing is written in this process's network namespace. The kernel may load modules, as at a start of the agent. */
export async function probeModes({ config, kernel, addonPath, canWrite }: ProbeOptions): Promise<ModeProbe> {
  const { flavour, reason: flavourReason } = await findFlavour({ config, kernel, log })
  const isolated = openKernel({ addonPath, isIsolated: true })
  const settings = new Map<string, ModeProbe['settings'][number]>()
  const sysctl = recordingSysctl(kernel.sysctl, async (path, value) => {
    const isAllowed = await canWrite(path)
    settings.set(path, { path, value, canWrite: isAllowed })
    return isAllowed
  })
  const notes: string[] = []
  const open = async (wanted: Config, own: Sysctl): Promise<Mode> =>
    await openIsolated({ ...wanted, iptablesFlavour: flavour }, { ...isolated, sysctl: own }, notes)
  try {
    await recordConntrack(config, { ...isolated, sysctl })
    const chosen = await orSentence(async () => await open(config, sysctl))
    const others: string[] = []
    const unrecorded = recordingSysctl(kernel.sysctl, () => Promise.resolve(true))
    for (const { name } of modeKinds) {
      if (typeof chosen !== 'string' && name === chosen.name) continue
      const mode = await orSentence(
        async () => await open({ ...config, mode: name, modeFallback: false }, unrecorded),
      )
      if (typeof mode !== 'string') others.push(nameOf(mode))
    }
    const problem = typeof chosen === 'string' ? chosen : notes[0]
    const name = typeof chosen === 'string' ? undefined : nameOf(chosen)
    return { chosen: name, flavour, flavourReason, problem, others, settings: [...settings.values()] }
  } finally {
    await isolated.close()
  }
}

async function openIsolated(config: Config, kernel: Kernel, notes: string[]): Promise<Mode> {
  return await openMode({
    config,
    kernel,
    conntrack: Promise.resolve(),
    node: new NodeTracker(nodeName(config, hostname()), config.bindAddress),
    clock: systemClock,
    log,
    metrics: openMetrics(new Registry()),
    problems: openProblems({ log }),
    events: { record: ({ note }) => void notes.push(note) },
    openHealthChecks: () => ({ sync: () => Promise.resolve([]), stop: () => Promise.resolve() }),
  })
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

/** The mode, or one sentence why it cannot run. */
async function orSentence(open: () => Promise<Mode>): Promise<Mode | string> {
  try {
    return await open()
  } catch (error) {
    if (error instanceof KernelError || isConfigError(error)) return adviceOn(error)
    throw error
  }
}

function nameOf({ name, flavour }: { readonly name: ProxyMode; readonly flavour?: Mode['flavour'] }): string {
  return flavour === undefined ? name : `${name} (${flavour})`
}
