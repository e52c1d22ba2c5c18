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
 * SIGUSR2 lets the log show everything; the next one lets it show again what `verbosity` says. SIGUSR1 does nothing: Node would
 * take connections of a debugger, which may do all that a privileged agent may.
 */
export function followLogSignals(log: AdjustableLog, verbosity: number): void {
  let isSwitched = false
  process.on('SIGUSR2', () => {
    isSwitched = !isSwitched
    const now = isSwitched ? Math.max(everything, verbosity) : verbosity
    log.setVerbosity(now)
    log.info('Verbosity of the log changed', { signal: 'SIGUSR2', v: now })
  })
  process.on('SIGUSR1', () => undefined)
}
