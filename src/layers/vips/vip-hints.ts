import { type Log, StateReporter } from '../../log.js'

/** Opens the reporter of hints for the operator about VIPs, for both families. */
export function openVipHints(log: Log): StateReporter {
  return new StateReporter({
    log,
    level: 'warn',
    problemLine: 'VIP binding is limited',
    recovery: 'VIP binding is no longer limited',
  })
}
