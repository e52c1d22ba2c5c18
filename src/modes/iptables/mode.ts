import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import { familiesWithXtables, findsInvalid, inOrder, ensureSetting } from '../../host/index.js'
import { servesLocalhostNodePorts } from '../../node/index.js'
import { openWarnings } from '../shared/index.js'
import { IptablesPipeline } from './pipeline.js'
import { type Mode, type ModeOptions, type OpenModeOptions, openKernelWatch } from '../../engine/index.js'

/** At 10,000 Services a write takes some 50 ms of a core. A rest of twice that time leaves two thirds of the core to other work. */
const restFactor = 2

/**
 * Makes the kernel ready. Throws the error of `conntrack`, and KernelError if the kernel has no legacy x_tables or if the process may
 * not use them.
 */
export async function openIptablesMode(options: OpenModeOptions): Promise<Mode> {
  const { kernel, log, conntrack } = options
  const [, families] = await inOrder([
    conntrack,
    familiesWithXtables({ kernel, tables: ['nat', 'filter'], log }),
  ])
  const { config, node } = options
  // With --init-only no pipeline will do it. The Node is not known here, but `primary` never includes loopback addresses.
  const mayServeLocalhost = config.initOnly && config.nodePortAddresses !== 'primary'
  if (mayServeLocalhost && servesLocalhostNodePorts({ family: 'ipv4', config, node: node.facts }))
    await serveLocalhost(options)
  return iptablesMode(options, { families, dropsInvalid: await findsInvalid(kernel.sysctl) })
}

/** The mode on a kernel that is ready. `dropsInvalid`: the result of `findsInvalid`. */
export function iptablesMode(
  options: ModeOptions,
  { families, dropsInvalid }: { readonly families: readonly IpFamily[]; readonly dropsInvalid: boolean },
): Mode {
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
      serveLocalhost: async () => await serveLocalhost(options),
      tables: { nat: kernel.xtables(family, 'nat'), filter: kernel.xtables(family, 'filter') },
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

/** F-064: without this setting the kernel drops packets from loopback addresses to endpoints. */
async function serveLocalhost({ kernel, log }: ModeOptions): Promise<void> {
  const path = 'net/ipv4/conf/all/route_localnet'
  const outcome = await ensureSetting({ path, value: 1 }, { sysctl: kernel.sysctl, log })
  const remedy = 'set it on the node, or use --iptables-localhost-nodeports=false'
  if (outcome instanceof KernelError)
    log.error(`Kernel setting cannot be changed: ${path} should be 1; ${remedy}`, {
      setting: path,
      err: outcome,
    })
}
