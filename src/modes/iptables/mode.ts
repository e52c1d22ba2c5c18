import { familiesWithXtables, findsInvalid, inOrder, routeLocalnet } from '../../host/index.js'
import { openWarnings } from '../shared/index.js'
import { nftFlavour, openNftFlavour, type KernelFacts } from './nft-mode.js'
import { IptablesPipeline } from './pipeline.js'
import { serveLocalhostAtInit } from './serve-localhost.js'
import { type Mode, type ModeOptions, type OpenModeOptions, openKernelWatch } from '../../engine/index.js'

/** At 10,000 Services a write takes some 50 ms of a core. A rest of twice that time leaves two thirds of the core to other work. */
const restFactor = 2

/**
 * Makes the kernel ready. Throws the error of `conntrack`, and KernelError if the kernel does not have the tables of the flavour, or
 * if the process may not use them.
 */
export async function openIptablesMode(options: OpenModeOptions): Promise<Mode> {
  if (options.flavour === 'nft') return await openNftFlavour(options)
  const { kernel, log, conntrack } = options
  const [, families] = await inOrder([
    conntrack,
    familiesWithXtables({ kernel, tables: ['nat', 'filter'], log }),
  ])
  await serveLocalhostAtInit(options)
  return iptablesMode(options, { families, dropsInvalid: await findsInvalid(kernel.sysctl) })
}

/** The mode on a kernel that is ready. */
export function iptablesMode(options: ModeOptions, facts: KernelFacts): Mode {
  if (options.flavour === 'nft') return nftFlavour(options, facts)
  const { families, dropsInvalid } = facts
  const { config, kernel, log, metrics } = options
  const warnings = openWarnings(options)
  const { syncPeriodMs, minSyncPeriodMs } = config.iptables
  const pipelines: IptablesPipeline[] = []
  const openPipeline: Mode['openPipeline'] = (family, isHealthy) => {
    const pipeline = new IptablesPipeline({
      ...options,
      ...kernel,
      family,
      dropsInvalid,
      syncPeriodMs,
      warnings,
      routeLocalnet: async () => await routeLocalnet(options),
      tables: {
        nat: kernel.xtables(family, 'nat', 'legacy'),
        filter: kernel.xtables(family, 'filter', 'legacy'),
      },
      metrics: metrics[family],
      listeners: options.openHealthChecks(family, isHealthy),
    })
    pipelines.push(pipeline)
    return pipeline
  }
  const openWatch: NonNullable<Mode['openWatch']> = () =>
    openKernelWatch({ open: () => kernel.look(families).watchTables(), pipelines, log })
  return {
    name: 'iptables',
    flavour: options.flavour,
    families,
    openPipeline,
    openWatch,
    syncPeriodMs,
    minSyncPeriodMs,
    restFactor,
  }
}
