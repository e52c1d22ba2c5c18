import type { IpFamily } from '../address.js'
import type { Clock } from '../clock.js'
import type { Log } from '../log.js'
import type { ServicePortKey, Share } from '../model/index.js'
import type { Route } from '../routing/index.js'
import type { FamilyIntake } from './family-intake.js'
import type { Pass } from './pass.js'
import type { RouteDecisions } from './route-decisions.js'
import { logFamily } from './sync-report.js'

interface ClaimDirtyOptions {
  readonly family: IpFamily
  readonly intake: Pick<FamilyIntake, 'takeDirty'>
  /** The pass takes a share, as `FamilyTracker.take` does. Absent: all dirty service ports. */
  readonly share?: Share | undefined
  /** The service port joins the pass although it is not in its share: it is dirty no more. */
  readonly unmark: (key: ServicePortKey) => void
  readonly decisions: Pick<RouteDecisions, 'decide'>
  readonly clock: Clock
  readonly log: Log
  /** The pass in progress, which records the service ports and the events. */
  readonly pass: Pick<Pass, 'takeDirty' | 'noteDirty' | 'stages'>
  /** Decides who has the frontends that it claims. Undefined: it has no frontend on this node. */
  readonly claimFrontends: (key: ServicePortKey, decided: Route | undefined) => void
  /** The other service ports that gained or lost a frontend since the last call. */
  readonly takeConcerned: () => ReadonlySet<ServicePortKey>
  /** Compiles and claims one service port. Undefined: it has no frontend on this node, and its claims go. */
  readonly claim: (key: ServicePortKey, decided: Route | undefined) => void | Promise<void>
  /** Called before other work gets its turn, while service ports are claimed. */
  readonly onSlice?: () => void
  readonly isStopping: () => boolean
}

/** Longest time for which compiling holds the event loop before other work gets its turn. */
const sliceMs = 8

/**
 * Decides the dirty service ports, or a share of them, and claims them, in slices of time. Resolves with their number. The frontends of all
 * of them have their owners before the first one is compiled: a service port that loses a frontend, or gains one, is claimed in the same
 * pass, and never with a frontend that it has not in the end.
 */
export async function claimDirty(options: ClaimDirtyOptions): Promise<number> {
  const { family, log, pass, claim, onSlice, isStopping } = options
  pass.stages.beginCompile()
  const slices = new Slices(options.clock)
  const decisions = await decideDirty(options, slices)
  const { size } = decisions
  for (const [key, decided] of decisions) {
    if (isStopping()) break
    traceRoute(log, family, key, decided)
    // Nearly always it does not wait, and a service port takes no turn of its own.
    const claiming = claim(key, decided)
    if (claiming !== undefined) await claiming
    // Its memory is needed for what comes.
    decisions.delete(key)
    if (!slices.isOver) continue
    onSlice?.()
    await slices.next()
  }
  pass.stages.endCompile()
  return size
}

async function decideDirty(
  { intake, share, unmark, decisions, pass, claimFrontends, takeConcerned, isStopping }: ClaimDirtyOptions,
  slices: Slices,
): Promise<Map<ServicePortKey, Route | undefined>> {
  const decided = new Map<ServicePortKey, Route | undefined>()
  let keys = await pass.takeDirty(intake, share)
  while (keys.size > 0) {
    for (const key of keys) {
      if (isStopping()) return decided
      const decision = decisions.decide(key)
      const route = decision instanceof Promise ? await decision : decision
      decided.set(key, route)
      claimFrontends(key, route)
      if (slices.isOver) await slices.next()
    }
    keys = pass.noteDirty(new Set([...takeConcerned()].filter((key) => !decided.has(key))))
    for (const key of keys) unmark(key)
  }
  return decided
}

/** Slices of time between which other work gets its turn. */
class Slices {
  readonly #clock: Clock
  #startMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startMs = clock.now()
  }

  get isOver(): boolean {
    return this.#clock.now() - this.#startMs >= sliceMs
  }

  async next(): Promise<void> {
    await this.#clock.pause()
    this.#startMs = this.#clock.now()
  }
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
