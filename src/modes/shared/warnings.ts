import type { EventRecorder } from '../../event.js'
import { type Log, StateReporter } from '../../log.js'

/** Reports what Services request and a mode does not provide, of both families: log lines and Events. */
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
    trouble: 'not as asked',
    recovery: 'as asked now',
    events,
    count: () => {},
  })
}
