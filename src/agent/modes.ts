// The proxy modes that this agent knows. A new mode is a new folder in modes/ and one line here.
import { KernelError, orRefusal } from '../errors.js'
import type { ChainNames, CleanUpOptions, Mode, ModeKind } from '../engine/index.js'
import { type Kernel, natGuardTables, type XtFlavour } from '../kernel/index.js'
import { type Log, StateReporter } from '../log.js'
import { ipvsKind } from '../modes/ipvs/index.js'
import { iptablesKind } from '../modes/iptables/index.js'
import { nftablesKind } from '../modes/nftables/index.js'
import { userspaceKind } from '../modes/userspace/index.js'
import { cleanUpNatGuard } from '../layers/vips/index.js'

/** The order of the clean-up: rules before the sets of ipvs mode to which they refer. */
export const modeKinds: readonly ModeKind[] = [iptablesKind, ipvsKind, nftablesKind, userspaceKind]

/** Chains that any mode may have left. */
export const formerChains: ChainNames = Object.fromEntries(
  (['nat', 'filter', 'mangle'] as const).map((table) => [
    table,
    modeKinds.flatMap(({ chains }) => chains[table] ?? []),
  ]),
)

export const xtFlavours: readonly XtFlavour[] = ['legacy', 'nft']

/**
 * Removes the guards of VIPs that another mode left, if this mode serves Services by rules of table nat, which would not see connections to
 * VIPs. Until then what the other mode left serves them. Logs the removed tables, and each failure once. Resolves with false while one is left.
 * Never throws KernelError.
 */
export function leavingGuards(
  { name }: Pick<Mode, 'name'>,
  { kernel, log }: { readonly kernel: Pick<Kernel, 'nftChains'>; readonly log: Log },
): () => Promise<boolean> {
  if (name in natGuardTables) return async () => true
  const warnings = new StateReporter({
    log,
    level: 'warn',
    problemLine:
      'The guard of VIPs that another mode left cannot be removed, and keeps VIPs from the rules of this mode',
    recovery: 'The guard of VIPs that another mode left is removed now',
  })
  return async () => {
    let isComplete = true
    for (const table of Object.values(natGuardTables)) {
      const { texts, failures } = await cleanUpNatGuard(kernel.nftChains, table)
      if (texts.length > 0) log.info(`Guard of VIPs: ${texts.join('; ')}`)
      if (failures.length > 0) isComplete = false
      const text = failures.map(({ message }) => message).join('; ')
      warnings.report(table, failures.length === 0 ? undefined : { text })
    }
    return isComplete
  }
}

/**
 * Removes what other modes, and the mode itself in the other flavour, left, even after a failure of one of them. Logs the removed
 * objects, and each failure once. Resolves with false while something is left. Never throws KernelError.
 */
export function leavingOthers(
  mode: Pick<Mode, 'name' | 'flavour'>,
  options: Omit<CleanUpOptions, 'chains' | 'flavours'> & { readonly log: Log },
): () => Promise<boolean> {
  const others = modeKinds.flatMap((kind) => {
    const flavours = leftFlavours(kind, mode)
    return flavours === undefined ? [] : [leaving(kind, { ...options, flavours })]
  })
  return async () => {
    let isComplete = true
    for (const leave of others) if (!(await leave())) isComplete = false
    return isComplete
  }
}

/** The flavours in which the objects of this kind are leftovers; undefined: the mode that runs needs the objects. */
function leftFlavours(
  { name }: ModeKind,
  mode: Pick<Mode, 'name' | 'flavour'>,
): readonly XtFlavour[] | undefined {
  // iptables mode removes former chains of its own flavour with its first write. In the flavour nft it has the table of nftables mode.
  if (name === 'nftables' && mode.name === 'iptables' && mode.flavour === 'nft') return undefined
  if (name !== mode.name) return xtFlavours
  return name === 'iptables' ? xtFlavours.filter((flavour) => flavour !== mode.flavour) : undefined
}

function leaving(
  { name, cleanUp }: ModeKind,
  { log, ...options }: Omit<CleanUpOptions, 'chains'> & { readonly log: Log },
): () => Promise<boolean> {
  const warnings = new StateReporter({
    log,
    level: 'warn',
    problemLine: `Leftovers of ${name} mode cannot all be removed`,
    recovery: `Leftovers of ${name} mode are removed now`,
  })
  return async () => {
    const outcome = await orRefusal(() => cleanUp({ ...options, chains: formerChains }))
    const failures = outcome instanceof KernelError ? [outcome.message] : outcome.failures
    if (!(outcome instanceof KernelError) && outcome.hasRemoved)
      log.info(`Leftovers of ${name} mode: ${outcome.text}`)
    warnings.report(name, failures.length === 0 ? undefined : { text: failures.join('; ') })
    return failures.length === 0
  }
}
