// Signals to the agent.
import type { AdjustableLog } from '../log.js'

/** Resolves with the first signal that asks the process to end. */
export async function stopSignal(): Promise<NodeJS.Signals> {
  return await new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, resolve)
  })
}

/** The verbosity (klog's V) at which the log shows all lines. */
const traceVerbosity = 4

/**
 * SIGUSR2 toggles trace logging: the second one restores the former verbosity, unless it was changed by other means in between.
 * SIGUSR1 is ignored: by default Node would accept debugger connections, which get all privileges of the agent.
 */
export function followLogSignals(log: AdjustableLog): void {
  let change: { readonly from: number; readonly to: number } | undefined
  process.on('SIGUSR2', () => {
    const from = log.verbosity
    const isSwitched = change?.to === from
    const now = isSwitched && change !== undefined ? change.from : Math.max(traceVerbosity, from)
    change = isSwitched ? undefined : { from, to: now }
    log.setVerbosity(now)
    log.info('Log verbosity changed', { signal: 'SIGUSR2', v: now })
  })
  process.on('SIGUSR1', () => undefined)
}
