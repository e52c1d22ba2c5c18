import type { EventRecorder } from '../../event.js'
import { type Log, StateReporter } from '../../log.js'

/** Opens the reporter of requests of Services that a mode does not meet, for both families. It writes log lines and Events. */
export function openWarnings({
  log,
  events,
}: {
  readonly log: Log
  readonly events: EventRecorder
}): StateReporter {
  return new StateReporter({
    log,
    level: 'warn',
    problemLine: 'Service is not programmed as specified',
    recovery: 'Service is programmed as specified now',
    events,
  })
}
