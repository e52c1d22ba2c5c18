// Opens the configured proxy mode, or the first of its fallbacks that this kernel can run.
import type { ProxyMode } from '../config/index.js'
import { BugError, ConfigError, KernelError, orRefusal } from '../errors.js'
import { nodeReference } from '../event.js'
import type { Mode, ModeKind, OpenModeOptions } from '../engine/index.js'
import {
  type ChosenFlavour,
  isWithoutXtables,
  otherFlavour,
  placeName,
  standingServices,
} from '../host/index.js'
import type { XtFlavour } from '../kernel/index.js'
import { adviceOn, type AdviceModules, lackOf } from './advice.js'
import { findFlavour } from './find-flavour.js'
import { formerChains, modeKinds } from './modes.js'

/** The modes to try for each configured mode, in order. */
const candidates: Readonly<Record<ProxyMode, readonly ProxyMode[]>> = {
  ipvs: ['ipvs', 'iptables', 'nftables', 'userspace'],
  iptables: ['iptables', 'nftables', 'userspace'],
  nftables: ['nftables', 'iptables', 'userspace'],
  userspace: ['userspace'],
}

type Options = Omit<OpenModeOptions, 'formerChains' | 'flavour'> & {
  /** Default: those of this kernel. */
  readonly modules?: AdviceModules
}

/** Opens a mode in a flavour, as `ModeKind.open` does. */
export type OpenKind = (kind: ModeKind, options: OpenModeOptions) => Promise<Mode>

/** The path of a ConfigError that names a module of the kernel which is not installed. */
export const absentModule = 'kernel module'

/** A mode that this kernel cannot run. */
interface UnavailableMode {
  readonly name: ProxyMode
  /** undefined: the mode has no rules of x_tables. */
  readonly flavour: XtFlavour | undefined
  readonly error: unknown
}

/**
 * Prepares the kernel for the configured mode, in the flavour of x_tables that the node uses. If that mode is unavailable and
 * `modeFallback` is set, opens it in the other flavour, or else the first available fallback, with one warning and one Event. Throws
 * ConfigError or KernelError if a mode fails for another reason.
 */
export async function openMode(
  options: Options,
  open: OpenKind = async (kind, own) => await kind.open(own),
): Promise<Mode> {
  const { mode: configured, modeFallback } = options.config
  const chosen = await findFlavour(options)
  const unavailable: UnavailableMode[] = []
  for (const name of candidates[configured]) {
    const kind = kindOf(name)
    for (const flavour of flavoursToTry(kind, chosen.flavour)) {
      try {
        const mode = await open(kind, { ...options, flavour, formerChains })
        await reportFlavour(mode, chosen, options)
        if (unavailable.length > 0) reportFallback(mode, unavailable, options)
        return mode
      } catch (error) {
        if (!modeFallback || !isUnavailable(error)) throw error
        unavailable.push({ name, flavour: kind.flavours.length === 0 ? undefined : flavour, error })
        if (!concernsFlavour(error)) break
      }
    }
  }
  // Every list ends with userspace mode, of which no kernel lacks a feature.
  throw new BugError(`no mode is left after ${unavailable.map(({ name }) => name).join(', ')}`)
}

function kindOf(name: ProxyMode): ModeKind {
  const kind = modeKinds.find((candidate) => candidate.name === name)
  if (kind === undefined) throw new BugError(`no mode is called ${name}`)
  return kind
}

/** The flavours in which the mode can run, the chosen one first. A mode without rules of x_tables is opened once. */
function flavoursToTry({ flavours }: ModeKind, chosen: XtFlavour): readonly XtFlavour[] {
  if (flavours.length === 0) return [chosen]
  return [chosen, otherFlavour(chosen)].filter((flavour) => flavours.includes(flavour))
}

/** The legacy flavour has no name, as the modes of kube-proxy have none. */
function inFlavour({ flavour }: { readonly flavour?: XtFlavour | undefined }): string {
  return flavour === 'nft' ? ' in the flavour nft' : ''
}

/** NB: before the first write of the mode. */
async function reportFlavour(
  { name, flavour }: Mode,
  chosen: ChosenFlavour,
  { kernel, log }: Options,
): Promise<void> {
  if (flavour === undefined) return
  const reason =
    flavour === chosen.flavour ? chosen.reason : `the mode cannot run in the flavour ${chosen.flavour}`
  const former = otherFlavour(flavour)
  // In ipvs mode the Services, and the affinity of their clients, are in IPVS.
  const isMoved = name === 'iptables' && (await areMoved(kernel, { former, flavour }))
  if (!isMoved) return log.info('Flavour of iptables chosen', { flavour, reason })
  log.warn(
    `Flavour of iptables changes from ${former} to ${flavour}: ${reason}, and the Services stand in ${placeName(former)}. ` +
      'Connections stay; new ones of clients with session affinity may go to another endpoint. ' +
      `--iptables-flavour=${former} keeps the former flavour`,
    { flavour, reason },
  )
}

/** Whether the Services stand in the former flavour alone. What cannot be read counts as absent: only a warning depends on it. */
async function areMoved(
  kernel: Options['kernel'],
  { former, flavour }: { readonly former: XtFlavour; readonly flavour: XtFlavour },
): Promise<boolean> {
  const moved = await orRefusal(
    async () => (await standingServices(kernel, former)) && !(await standingServices(kernel, flavour)),
  )
  return moved === true
}

function reportFallback(
  mode: Mode,
  unavailable: readonly UnavailableMode[],
  { log, events, node, modules }: Options,
): void {
  const reasons = unavailable.map(
    (one) => `${one.name} mode${inFlavour(one)} cannot run here: ${adviceOn(one.error, modules)}`,
  )
  const note = `${mode.name} mode${inFlavour(mode)} runs instead: ${reasons.join('; ')}`
  log.warn(`Proxy mode falls back: ${note}`, { fallback: mode.name })
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
  return error instanceof ConfigError && ['ipvs-scheduler', 'vip-binding', absentModule].includes(error.path)
}

/** The kernel lacks what one flavour of x_tables needs: legacy tables, or nf_tables with the features of the flavour nft. */
function concernsFlavour(error: unknown): boolean {
  if (error instanceof ConfigError)
    return error.path === absentModule && (error.cause === undefined || concernsFlavour(error.cause))
  return error instanceof KernelError && (isWithoutXtables(error) || error.subsystem === 'nftables')
}
