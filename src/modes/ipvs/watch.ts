import type { Clock } from '../../clock.js'
import { JoinedWatch, type ModeKernel, type ModeWatch, openKernelWatch } from '../../engine/index.js'
import type { KernelLook, XtFlavour } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import { NftModeWatch } from '../../layers/nft-table/index.js'
import { type IpvsLayer, setPrefix } from '../../layers/ipvs/index.js'

/** Time for which the same virtual servers of a large table are watched. */
const turnMs = 10_000

export interface IpvsWatchOptions {
  readonly look: KernelLook
  readonly kernel: Pick<ModeKernel, 'nftables'>
  readonly flavour: XtFlavour
  /** One per family. */
  readonly layers: readonly IpvsLayer[]
  readonly clock: Clock
  readonly log: Log
}

/**
 * Watches sets, a few virtual servers in turn, and the rules: legacy tables by their sizes and their lock, those of nf_tables by its
 * events. undefined: as `openKernelWatch`.
 */
export function openIpvsWatch(options: IpvsWatchOptions): ModeWatch | undefined {
  const watch = openLookWatch(options)
  if (watch === undefined || options.flavour === 'legacy') return watch
  return new JoinedWatch([watch, rulesWatch(options)])
}

function openLookWatch({ look, layers, clock, log }: IpvsWatchOptions): ModeWatch | undefined {
  const checks = layers.map(({ driftCheck }) => driftCheck)
  let turnEndMs = -Infinity
  return openKernelWatch({
    open: () => look.watch(setPrefix),
    pipelines: checks,
    takeSample: () => {
      const isTurn = clock.now() >= turnEndMs
      if (isTurn) turnEndMs = clock.now() + turnMs
      return checks.flatMap((each) => each.takeSample(isTurn))
    },
    log,
  })
}

/** The synchronizer opens watches when the rules are written, so it opens at once. */
function rulesWatch({ kernel, layers, log }: IpvsWatchOptions): ModeWatch {
  const tables = layers.map((layer) => ({
    firstSync: Promise.resolve(),
    noteChanges: layer.noteChanges.bind(layer),
    noteWatch: () => layer.driftCheck.noteUnlock(),
  }))
  return new NftModeWatch({ nftables: kernel.nftables, tables, log })
}
