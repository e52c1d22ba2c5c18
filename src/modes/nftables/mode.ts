import { inOrder } from '../../host/index.js'
import type { IpFamily } from '../../address.js'
import type { Mode, ModeOptions, OpenModeOptions } from '../../engine/index.js'
import { openLocalhostNodePorts, SharedRelay } from '../relay/index.js'
import { openWarnings } from '../shared/index.js'
import { familiesWithNftables, NftModeWatch, NftPipeline } from '../nft-table/index.js'
import { nftSettings, withoutLocalhost } from './node-settings.js'

/** A run after a burst of changes takes milliseconds. A rest of the same time leaves half of a core to other work. */
const restFactor = 1

/** Makes the kernel ready. Throws KernelError if its nf_tables lacks a feature, or if the process may not use it. */
export async function openNftablesMode(options: OpenModeOptions): Promise<Mode> {
  const { kernel, log, conntrack } = options
  const [, families] = await inOrder([conntrack, familiesWithNftables({ kernel, log })])
  return nftablesMode(options, families)
}

/** The mode on a kernel that is ready. */
export function nftablesMode(options: ModeOptions, families: readonly IpFamily[]): Mode {
  const { config, kernel, log, metrics } = options
  const warnings = openWarnings(options)
  const { syncPeriodMs, minSyncPeriodMs } = config.nftables
  const relay = new SharedRelay(kernel.relay, config)
  const pipelines: NftPipeline[] = []
  const openPipeline: Mode['openPipeline'] = (family, isHealthy) => {
    const pipeline: NftPipeline = new NftPipeline({
      ...options,
      ...kernel,
      config: withoutLocalhost(config),
      settingsOf: (facts) => nftSettings(family, config, facts),
      family,
      syncPeriodMs,
      warnings,
      metrics: metrics[family],
      listeners: options.openHealthChecks(family, isHealthy),
      also: openLocalhostNodePorts({
        ...options,
        mode: 'nftables',
        family,
        relay,
        metrics: metrics[family],
      }),
      onApplied: (generation) => {
        for (const other of pipelines) if (other !== pipeline) other.noteOtherFamily(generation)
      },
    })
    pipelines.push(pipeline)
    return pipeline
  }
  return {
    name: 'nftables',
    families,
    openPipeline,
    openWatch: () => new NftModeWatch({ nftables: kernel.nftables, tables: pipelines, log }),
    countRelay: async () => await relay.counters(),
    syncPeriodMs,
    minSyncPeriodMs,
    restFactor,
  }
}
