import type { EventRecorder } from '../event.js'
import { type Log, StateReporter } from '../log.js'

export interface ProblemsOptions {
  readonly log: Log
  readonly events?: EventRecorder
  /** Gets the number of objects with a problem, at each change of that number. */
  readonly count?: (problems: number) => void
}

/** Reports objects and tables that the kernel does not have as desired, of both families: log lines and Events. */
export function openProblems(options: ProblemsOptions): StateReporter {
  return new StateReporter({
    ...options,
    level: 'error',
    problemLine: 'Network programming failed',
    recovery: 'Network programming recovered',
  })
}
