import type { IpFamily } from '../address.js'
import type { Clock } from '../clock.js'
import type { Log } from '../log.js'
import type { ServicePortKey } from '../model/index.js'
import type { Route } from '../routing/index.js'
import type { FamilyIntake } from './family-intake.js'
import type { Pass } from './pass.js'
import type { RouteDecisions } from './route-decisions.js'
import { logFamily } from './sync-report.js'

interface ClaimDirtyOptions {
  readonly family: IpFamily
  readonly intake: Pick<FamilyIntake, 'takeDirty'>
  readonly decisions: Pick<RouteDecisions, 'decide'>
  readonly clock: Clock
  readonly log: Log
  /** The pass in progress, which records the service ports and the events. */
  readonly pass: Pick<Pass, 'takeDirty' | 'stages'>
  /** Compiles and claims one service port. Undefined: it has no frontend on this node, and its claims go. */
  readonly claim: (key: ServicePortKey, decided: Route | undefined) => void | Promise<void>
  /** Called before other work gets its turn. */
  readonly onSlice?: () => void
  readonly isStopping: () => boolean
}

/** Longest time for which compiling holds the event loop before other work gets its turn. */
const sliceMs = 8

/** Decides all dirty service ports and claims them, in slices of time. Resolves with their number. */
export async function claimDirty(options: ClaimDirtyOptions): Promise<number> {
  const { family, intake, decisions, clock, log, pass, claim, onSlice, isStopping } = options
  let sliceStartMs = clock.now()
  pass.stages.beginCompile()
  const dirty = await pass.takeDirty(intake)
  for (const key of dirty) {
    if (isStopping()) break
    // Nearly always neither waits, and a service port takes no turn of its own.
    const decision = decisions.decide(key)
    const decided = decision instanceof Promise ? await decision : decision
    traceRoute(log, family, key, decided)
    const claiming = claim(key, decided)
    if (claiming !== undefined) await claiming
    if (clock.now() - sliceStartMs < sliceMs) continue
    onSlice?.()
    await clock.pause()
    sliceStartMs = clock.now()
  }
  pass.stages.endCompile()
  return dirty.size
}

/** Writes one line for each changed service port, as kube-proxy does at V(4). `decided` undefined: the service port was removed. */
export function traceRoute(
  log: Log,
  family: IpFamily,
  key: ServicePortKey,
  decided: Pick<Route, 'clusterBackends' | 'localBackends' | 'hasEndpoints'> | undefined,
): void {
  if (!log.writes('trace')) return
  const head = { ipFamily: logFamily(family), service: key }
  if (decided === undefined) {
    log.trace('Service port is gone', head)
    return
  }
  const { clusterBackends, localBackends, hasEndpoints } = decided
  log.trace('Service port compiled', {
    ...head,
    clusterEndpoints: clusterBackends.length,
    localEndpoints: localBackends.length,
    refused: !hasEndpoints,
  })
}
