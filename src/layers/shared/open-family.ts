import {
  Family,
  type FamilyContext,
  type FamilyOptions,
  type ModeOptions,
  type PipelineAgent,
} from '../../engine/index.js'
import type { IpFamily } from '../../address.js'
import type { EventRecorder } from '../../event.js'
import { type Log, StateReporter } from '../../log.js'
import { AfterSync, type AfterSyncPart } from './after-sync.js'

/** The part of the options that a mode chooses. */
interface OpenFamilyOptions<S, D> extends Omit<
  FamilyOptions<S, D>,
  keyof FamilyContext | 'intake' | 'openFollowUp'
> {
  readonly syncPeriodMs: number
  readonly warnings: FamilyContext['warnings']
  /** False: the mode is a proxy that listens on frontends itself. */
  readonly translates: boolean
  /** Replaces those of the agent. */
  readonly config?: FamilyContext['config']
  readonly metrics?: FamilyContext['metrics']
  /** Node ports on localhost, where the relay serves them: their work comes after each sync. Absent: none. */
  readonly localhostNodePorts?: AfterSyncPart | undefined
}

/** Opens the loop of one family of a mode, with the work after a sync that all modes have. */
export function openFamily<S, D>(
  options: ModeOptions,
  family: IpFamily,
  { intake, isHealthy }: PipelineAgent,
  { translates, localhostNodePorts, ...own }: OpenFamilyOptions<S, D>,
): Family<S, D> {
  return new Family({
    ...options,
    ...options.kernel,
    metrics: options.metrics[family],
    ...own,
    family,
    intake,
    openFollowUp: (parts) => {
      const listeners = options.openHealthChecks(family, isHealthy)
      const translation = { ...options, ...options.kernel, ...parts }
      return new AfterSync({
        ...parts,
        listeners,
        localhostNodePorts,
        translation: translates ? translation : undefined,
      })
    },
  })
}

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
