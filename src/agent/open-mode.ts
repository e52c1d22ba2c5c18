// Opens the configured proxy mode, or the first of its fallbacks that this kernel can run.
import type { ProxyMode } from '../config/index.js'
import { BugError, ConfigError, KernelError } from '../errors.js'
import { nodeReference } from '../event.js'
import type { Mode, OpenModeOptions } from '../engine/index.js'
import { adviceOn, lackOf } from './advice.js'
import { formerChains, modeKinds } from './modes.js'

/** The modes to try for each configured mode, in order. */
const candidates: Readonly<Record<ProxyMode, readonly ProxyMode[]>> = {
  ipvs: ['ipvs', 'iptables', 'nftables'],
  iptables: ['iptables', 'nftables'],
  nftables: ['nftables', 'iptables'],
}

type Options = Omit<OpenModeOptions, 'formerChains' | 'flavour'>

/** A mode that this kernel cannot run. */
interface UnavailableMode {
  readonly name: ProxyMode
  readonly error: unknown
}

/**
 * Prepares the kernel for the configured mode. If that mode is unavailable and `modeFallback` is set, opens the first available
 * fallback, with one warning and one Event. Throws ConfigError or KernelError if no mode is available, or if a mode fails for
 * another reason.
 */
export async function openMode(options: Options): Promise<Mode> {
  const { mode: configured, modeFallback } = options.config
  const unavailable: UnavailableMode[] = []
  for (const name of candidates[configured]) {
    try {
      const mode = await open(name, options)
      if (unavailable.length > 0) reportFallback(mode, unavailable, options)
      return mode
    } catch (error) {
      if (!modeFallback || !isUnavailable(error)) throw error
      unavailable.push({ name, error })
    }
  }
  const [first, second] = unavailable
  if (second === undefined) throw first?.error
  const reasons = unavailable.map(({ name, error }) => `${name}: ${adviceOn(error)}`)
  throw new ConfigError('', `no mode can run here: ${reasons.join('; ')}`)
}

async function open(name: ProxyMode, options: Options): Promise<Mode> {
  const kind = modeKinds.find((candidate) => candidate.name === name)
  if (kind === undefined) throw new BugError(`no mode is called ${name}`)
  return await kind.open({ ...options, flavour: 'legacy', formerChains })
}

function reportFallback(
  { name }: Mode,
  unavailable: readonly UnavailableMode[],
  { log, events, node }: Options,
): void {
  const reasons = unavailable.map((one) => `${one.name} mode cannot run here: ${adviceOn(one.error)}`)
  const note = `${name} mode runs instead: ${reasons.join('; ')}`
  log.warn(`Proxy mode falls back: ${note}`)
  events.record({
    type: 'Warning',
    reason: 'ProxyModeFallback',
    action: 'StartKubeProxy',
    regarding: nodeReference(node.facts.name),
    note,
  })
}

/**
 * Whether the kernel, or this build, lacks a feature that the mode needs. False for a missing permission, a shortage, or a setting that
 * cannot be written: they affect the next mode too, or they pass.
 */
function isUnavailable(error: unknown): boolean {
  if (error instanceof KernelError) return lackOf(error) !== undefined
  return error instanceof ConfigError && ['ipvs-scheduler', 'vip-binding'].includes(error.path)
}
