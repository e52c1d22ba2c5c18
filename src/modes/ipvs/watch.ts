import type { Clock } from '../../clock.js'
import { type ModeWatch, openKernelWatch } from '../../engine/index.js'
import type { KernelLook } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import { setPrefix } from './compile/sets.js'
import type { IpvsPipeline } from './pipeline.js'

/** Time for which the same virtual servers of a large table are watched. */
const turnMs = 10_000

export interface IpvsWatchOptions {
  readonly look: KernelLook
  /** One per family. */
  readonly pipelines: readonly IpvsPipeline[]
  readonly clock: Clock
  readonly log: Log
}

/** Watches the sizes of tables and sets, the lock of the tables, and a few virtual servers in turn. undefined: as `openKernelWatch`. */
export function openIpvsWatch({ look, pipelines, clock, log }: IpvsWatchOptions): ModeWatch | undefined {
  let turnEndMs = -Infinity
  return openKernelWatch({
    open: () => look.watch(setPrefix),
    pipelines,
    takeSample: () => {
      const isTurn = clock.now() >= turnEndMs
      if (isTurn) turnEndMs = clock.now() + turnMs
      return pipelines.flatMap((pipeline) => pipeline.takeSample(isTurn))
    },
    log,
  })
}
