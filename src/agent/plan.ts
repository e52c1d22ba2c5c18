// `viaduct plan`: the first sync of an agent.
import { hostname } from 'node:os'
import { Registry } from 'prom-client'
import type { ProxyMode } from '../config/index.js'
import { BugError, ConfigError } from '../errors.js'
import { openMetrics } from '../metrics/index.js'
import { nodeName } from '../node/index.js'
import { FirstEnd } from '../process/index.js'
import { type Agent, build, type BuildOptions } from './build.js'
import type { Desired } from './owners.js'
import { followForMode } from './follow-for-mode.js'
import { openIntake } from './open-intake.js'
import { openConfiguredSource } from './open-source.js'

export interface PlanOptions extends Pick<BuildOptions, 'config' | 'flagTexts' | 'kernel' | 'clock' | 'log'> {
  /** Longest wait until all objects are read and planned. */
  readonly timeoutMs: number
}

/** The end of a start of the agent. Its changes are the transactions that the kernel's dry run took. */
export interface Plan {
  /** The mode that runs: the configured one, or a fallback. */
  readonly mode: ProxyMode
  readonly desired: Desired
  /** Why another mode than the configured one runs, in a sentence; absent: the configured mode runs. */
  readonly fallback?: string
}

/**
 * Does the work of an agent's start: opens the mode, hands all objects to the kernel, and removes what other modes left. Resolves when all is
 * handed over. With a dry run (`KernelOptions.dryRun`) nothing is changed. No server opens, and no Event is sent. Throws ConfigError for a
 * wrong setting, for objects that cannot be read, and when the time is over; KernelError when the kernel refuses the mode.
 */
export async function plan({ timeoutMs, ...options }: PlanOptions): Promise<Plan> {
  const { config, clock, log } = options
  const registry = new Registry()
  const metrics = openMetrics(registry)
  const first = new FirstEnd()
  const { fail: onCrash } = first
  const endWait = clock.schedule(timeoutMs, () => onCrash(timedOut(timeoutMs)))
  const { source } = await openConfiguredSource({
    config,
    nodeName: nodeName(config, hostname()),
    clock,
    log,
    metrics,
    onCrash,
  })
  const nowMs = clock.now()
  const { intake, node, nodeWatch } = openIntake({ ...options, metrics, doesNotWait: true })
  let agent: Agent | undefined
  let fallback: string | undefined
  try {
    const building = build({
      ...options,
      intake,
      node,
      isUnwatched: true,
      // A plan is made at one moment.
      lookClock: { now: () => nowMs },
      metrics,
      registry,
      events: {
        record: ({ reason, note }) => {
          if (reason === 'ProxyModeFallback') fallback = note
        },
      },
      onCrash,
      openHealthChecks: () => ({ sync: async () => [], stop: async () => {} }),
    })
    const built = await first.before(building)
    if (typeof built === 'string') throw new BugError('a signal ended the plan')
    agent = built
    const { mode, synchronizer, inForce } = built
    synchronizer.start()
    const reading = source.start((events) => {
      if (events.some(({ type }) => type === 'listed')) onCrash(unreadable())
      intake.deliver(events)
    })
    first.onFailureOf(reading)
    followForMode(source, mode)
    first.onFailureOf(nodeWatch.end)
    await first.before(inForce)
    const desired = { views: synchronizer.views, facts: node.facts }
    return { mode, desired, ...(fallback === undefined ? {} : { fallback }) }
  } finally {
    endWait()
    await source.stop()
    // Waits for the removal of what other modes left, which began when everything was in the kernel.
    nodeWatch.close()
    await agent?.synchronizer.stop()
  }
}

function unreadable(): ConfigError {
  return new ConfigError(
    '',
    'some objects cannot be read, so the plan would not be complete: see the errors above',
  )
}

function timedOut(timeoutMs: number): ConfigError {
  const seconds = timeoutMs / 1000
  return new ConfigError(
    '',
    `not all objects could be planned within ${seconds} s: see the warnings above, or use --timeout`,
  )
}
