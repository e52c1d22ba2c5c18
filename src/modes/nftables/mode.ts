import { inOrder } from '../../host/index.js'
import type { IpFamily } from '../../address.js'
import type { Mode, ModeOptions, OpenModeOptions } from '../../engine/index.js'
import {
  type LocalhostNodePorts,
  openLocalhostNodePorts,
  SharedRelay,
  withConditionWatch,
} from '../../layers/relay/index.js'
import { familiesWithNftables, openNftPipelines } from '../../layers/nft-table/index.js'
import { nftSettings, withoutLocalhost } from './node-settings.js'

/** A run after a burst of changes takes milliseconds. A rest of the same time leaves half of a core to other work. */
const restFactor = 1

/** Makes the kernel ready. Throws KernelError if its nf_tables lacks a feature, or if the process may not use it. */
export async function openNftablesMode(options: OpenModeOptions): Promise<Mode> {
  const { kernel, log, conntrack } = options
  const [, families] = await inOrder([
    conntrack,
    familiesWithNftables({ user: 'nftables mode', kernel, log }),
  ])
  return nftablesMode(options, families)
}

/** The mode on a kernel that is ready. */
export function nftablesMode(options: ModeOptions, families: readonly IpFamily[]): Mode {
  const { config, kernel, metrics } = options
  const { syncPeriodMs, minSyncPeriodMs } = config.nftables
  const relay = new SharedRelay(kernel.relay, config)
  const localhost: Partial<Record<IpFamily, LocalhostNodePorts | undefined>> = {}
  for (const family of families)
    localhost[family] = openLocalhostNodePorts({
      ...options,
      mode: 'nftables',
      family,
      relay,
      metrics: metrics[family],
    })
  const { openPipeline, openWatch } = openNftPipelines(options, (family) => ({
    config: withoutLocalhost(config),
    settingsOf: (state) => nftSettings(family, config, state),
    syncPeriodMs,
    minSyncPeriodMs,
    metrics: metrics[family],
    localhostNodePorts: localhost[family],
  }))
  return {
    name: 'nftables',
    families,
    openPipeline,
    openWatch: () => withConditionWatch(openWatch(), { ...options, mode: 'nftables', families }),
    countRelay: async () => await relay.counters(),
    countLocalhostNodePorts: () =>
      Object.fromEntries(families.map((family) => [family, localhost[family]?.totals])),
    syncPeriodMs,
    minSyncPeriodMs,
    restFactor,
  }
}
