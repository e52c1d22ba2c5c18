// The proxy modes that this agent knows. A new mode is a new folder in modes/ and one line here.
import { KernelError, orRefusal } from '../errors.js'
import type { ChainNames, CleanUpOptions, Mode, ModeKind } from '../engine/index.js'
import { type Log, StateReporter } from '../log.js'
import { ipvsKind } from '../modes/ipvs/index.js'
import { iptablesKind } from '../modes/iptables/index.js'
import { nftablesKind } from '../modes/nftables/index.js'

/** The order of the clean-up: rules before the sets of ipvs mode to which they refer. */
export const modeKinds: readonly ModeKind[] = [iptablesKind, ipvsKind, nftablesKind]

/** Chains that any mode may have left. */
export const formerChains: ChainNames = Object.fromEntries(
  (['nat', 'filter', 'mangle'] as const).map((table) => [
    table,
    modeKinds.flatMap(({ chains }) => chains[table] ?? []),
  ]),
)

/**
 * Removes the leftovers of the other modes, even after a failure of one of them. Logs the removed objects, and each failure once.
 * Resolves with false while something is left. Never throws KernelError.
 */
export function leavingOthers(
  mode: Pick<Mode, 'name' | 'flavour'>,
  options: Omit<CleanUpOptions, 'chains'> & { readonly log: Log },
): () => Promise<boolean> {
  const others = modeKinds.filter((kind) => isOther(kind, mode)).map((kind) => leaving(kind, options))
  return async () => {
    let isComplete = true
    for (const leave of others) if (!(await leave())) isComplete = false
    return isComplete
  }
}

/** In the flavour nft, iptables mode has the table of nftables mode. */
function isOther({ name }: ModeKind, mode: Pick<Mode, 'name' | 'flavour'>): boolean {
  if (name === 'nftables' && mode.name === 'iptables' && mode.flavour === 'nft') return false
  return name !== mode.name
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
