import type { EventRecorder } from '../../event.js'
import { type Log, StateReporter } from '../../log.js'

/** Reports requests of Services that a mode does not provide, of both families: log lines and Events. */
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
