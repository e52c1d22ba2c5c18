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

type Options = Omit<OpenModeOptions, 'formerChains'>

/** A mode that this kernel cannot run. */
interface UnavailableMode {
  readonly name: ProxyMode
  readonly error: unknown
}

/**
 * Makes the kernel ready for the configured mode. Where that mode is unavailable and `modeFallback` holds, the first
 * available fallback opens instead, with one warning and one Event. Throws ConfigError or KernelError where none is
 * available, and where a mode fails for any other reason.
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
  return await kind.open({ ...options, formerChains })
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
 * Whether the kernel lacks a feature that the mode needs. A missing right, a shortage and a setting that cannot be
 * written are no such reason: they affect the next mode too, or they pass.
 */
function isUnavailable(error: unknown): boolean {
  if (error instanceof KernelError) return lackOf(error) !== undefined
  return error instanceof ConfigError && ['ipvs-scheduler', 'vip-binding'].includes(error.path)
}
