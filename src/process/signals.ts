// Signals that the agent handles.
import type { AdjustableLog } from '../log.js'

/** Resolves with the first signal that ends the process. */
export async function stopSignal(): Promise<NodeJS.Signals> {
  return await new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, resolve)
  })
}

/** klog's V that shows all lines of Viaduct. */
const everything = 4

/**
 * SIGUSR2 toggles trace logging. If the verbosity was set otherwise in between, the next SIGUSR2 turns trace logging on again.
 * SIGUSR1 has no effect: by default Node would accept debuggers, which would get all rights of a privileged agent.
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
