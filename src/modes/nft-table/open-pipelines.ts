import type { IpFamily } from '../../address.js'
import type { Mode, ModeOptions } from '../../engine/index.js'
import { openWarnings } from '../shared/index.js'
import { NftPipeline, type NftPipelineOptions } from './pipeline.js'
import { NftModeWatch } from './watch.js'

/** The options in which the pipelines of different modes differ. */
type OwnOptions = Pick<
  NftPipelineOptions,
  | 'config'
  | 'settingsOf'
  | 'syncPeriodMs'
  | 'minSyncPeriodMs'
  | 'metrics'
  | 'fixedRules'
  | 'quietGap'
  | 'also'
>

/**
 * The part of a mode that opens pipelines, and the watch of their tables. The pipelines tell each other the generations of their
 * transactions, which the watch leaves out.
 */
export function openNftPipelines(
  options: ModeOptions,
  ownOptions: (family: IpFamily) => OwnOptions,
): Required<Pick<Mode, 'openPipeline' | 'openWatch'>> {
  const { kernel, log } = options
  const warnings = openWarnings(options)
  const pipelines: NftPipeline[] = []
  const openPipeline: Mode['openPipeline'] = (family, isHealthy) => {
    const pipeline: NftPipeline = new NftPipeline({
      ...options,
      ...kernel,
      ...ownOptions(family),
      family,
      warnings,
      listeners: options.openHealthChecks(family, isHealthy),
      onApplied: (generation) => {
        for (const other of pipelines) if (other !== pipeline) other.noteOtherFamily(generation)
      },
    })
    pipelines.push(pipeline)
    return pipeline
  }
  return {
    openPipeline,
    openWatch: () => new NftModeWatch({ nftables: kernel.nftables, tables: pipelines, log }),
  }
}
