// The proxy modes that this agent knows. A new mode is a new folder in modes/ and one line here.
import { KernelError } from '../errors.js'
import type { ChainNames, CleanUpOptions, CleanUpOutcome, ModeKind } from '../engine/index.js'
import { type Log, StateReporter } from '../log.js'
import type { ProxyMode } from '../config/index.js'
import { ipvsKind } from '../modes/ipvs/index.js'
import { iptablesKind } from '../modes/iptables/index.js'
import { nftablesKind } from '../modes/nftables/index.js'

/** In the order in which they are cleaned up: rules refer to the sets of ipvs mode. */
export const modeKinds: readonly ModeKind[] = [iptablesKind, ipvsKind, nftablesKind]

/** Chains that any mode may have left. */
export const formerChains: ChainNames = Object.fromEntries(
  (['nat', 'filter', 'mangle'] as const).map((table) => [
    table,
    modeKinds.flatMap(({ chains }) => chains[table] ?? []),
  ]),
)

/**
 * Removes what the other modes left, each whatever becomes of the rest: the log says what was removed, and once what could not be.
 * Resolves with false when something is left still; never throws KernelError.
 */
export function leavingOthers(
  name: ProxyMode,
  options: Omit<CleanUpOptions, 'chains'> & { readonly log: Log },
): () => Promise<boolean> {
  const others = modeKinds.filter((kind) => kind.name !== name).map((kind) => leaving(kind, options))
  return async () => {
    let isComplete = true
    for (const leave of others) if (!(await leave())) isComplete = false
    return isComplete
  }
}

function leaving(
  { name, cleanUp }: ModeKind,
  { log, ...options }: Omit<CleanUpOptions, 'chains'> & { readonly log: Log },
): () => Promise<boolean> {
  const warnings = new StateReporter({
    log,
    level: 'warn',
    trouble: `What ${name} mode left cannot all be removed`,
    recovery: `What ${name} mode left could be removed now`,
    count: () => {},
  })
  const tryIt = async (): Promise<CleanUpOutcome> => {
    try {
      return await cleanUp({ ...options, chains: formerChains })
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      return { text: '', hasRemoved: false, failures: [error.message] }
    }
  }
  return async () => {
    const { text, hasRemoved, failures } = await tryIt()
    if (hasRemoved) log.info(`What ${name} mode left: ${text}`)
    warnings.report(name, failures.length === 0 ? undefined : { text: failures.join('; ') })
    return failures.length === 0
  }
}
