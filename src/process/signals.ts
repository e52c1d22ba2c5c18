// What signals ask of the agent.
import type { AdjustableLog } from '../log.js'

/** Resolves with the first signal that asks the process to end. */
export async function stopSignal(): Promise<NodeJS.Signals> {
  return await new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, resolve)
  })
}

/** klog's V that shows everything that we write. */
const everything = 4

/**
 * SIGUSR2 lets the log show everything; the next one lets it show again what it showed before, unless somebody set it meanwhile: then
 * it begins anew. SIGUSR1 does nothing: Node would take connections of a debugger, which may do all that a privileged agent may.
 */
export function followLogSignals(log: AdjustableLog): void {
  let change: { readonly from: number; readonly to: number } | undefined
  process.on('SIGUSR2', () => {
    const from = log.verbosity
    const isSwitched = change?.to === from
    const now = isSwitched && change !== undefined ? change.from : Math.max(everything, from)
    change = isSwitched ? undefined : { from, to: now }
    log.setVerbosity(now)
    log.info('Verbosity of the log changed', { signal: 'SIGUSR2', v: now })
  })
  process.on('SIGUSR1', () => undefined)
}
