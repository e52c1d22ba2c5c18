import type { IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import { type Intake, type Pass, traceRoute } from '../../engine/index.js'
import type { Log } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'
import type { NodeFacts } from '../../node/index.js'
import { type Route, route } from '../../routing/index.js'

export interface ClaimDirtyOptions {
  readonly family: IpFamily
  readonly intake: Pick<Intake, 'tracker' | 'takeDirty'>
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly clock: Clock
  readonly log: Log
  /** The pass in progress, which records the service ports and the events. */
  readonly pass: Pick<Pass, 'takeDirty' | 'stages'>
  /** Compiles and claims one service port. Undefined: it was removed, and its claims go. */
  readonly claim: (key: ServicePortKey, decided: Route | undefined) => void
  /** Called before other work gets its turn. */
  readonly onSlice?: () => void
  readonly isStopping: () => boolean
}

/** Longest time for which compiling holds the event loop before other work gets its turn. */
const sliceMs = 8

/** Decides all dirty service ports and claims them, in slices of time. Resolves with their number. */
export async function claimDirty(options: ClaimDirtyOptions): Promise<number> {
  const { family, intake, node, clock, log, pass, claim, onSlice, isStopping } = options
  const { tracker } = intake
  let sliceStartMs = clock.now()
  pass.stages.beginCompile()
  const dirty = await pass.takeDirty(intake)
  for (const key of dirty) {
    if (isStopping()) break
    const port = tracker.servicePort(key)
    const decided = port && route(port, tracker.endpoints(port), node.facts)
    traceRoute(log, family, key, decided)
    claim(key, decided)
    if (clock.now() - sliceStartMs < sliceMs) continue
    onSlice?.()
    await clock.pause()
    sliceStartMs = clock.now()
  }
  pass.stages.endCompile()
  return dirty.size
}
