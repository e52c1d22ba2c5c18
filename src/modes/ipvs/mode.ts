import { type IpAddress, type IpFamily, cidrContains } from '../../address.js'
import type { LinkEvent } from '../../kernel/index.js'
import { ipvsTables } from './compile/chains.js'
import { IpvsPipeline } from './pipeline.js'
import { familiesWithXtables, inOrder, dummyDeviceName } from '../../host/index.js'
import { openLocalhostNodePorts, SharedRelay, withConditionWatch } from '../../layers/relay/index.js'
import { openWarnings } from '../../layers/shared/index.js'
import { IpvsSettings } from './settings.js'
import { loadForChains } from './chains.js'
import { openIpvsWatch } from './watch.js'
import { openVipHints } from '../../layers/vips/index.js'
import type { Mode, ModeOptions, OpenModeOptions, Pipeline } from '../../engine/index.js'
import { prepareKernel } from './prepare-kernel.js'
import { familiesWithSetRules } from './rules-probe.js'
import { ServiceScheduling } from './service-scheduling.js'
import { UnmetServices } from './unmet-services.js'

/** Makes the kernel ready. Throws the errors of `prepareKernel`, and KernelError if the kernel cannot have the rules in this flavour. */
export async function openIpvsMode(options: OpenModeOptions): Promise<Mode> {
  const { config, kernel, log, conntrack } = options
  const settings = new IpvsSettings({ config: config.ipvs, kernel, log })
  const { vipBinding } = config
  const [, families] = await inOrder([
    prepareKernel({ kernel, scheduler: config.ipvs.scheduler, vipBinding, settings, conntrack }),
    familiesWithRules(options),
  ])
  return ipvsMode(options, settings, families)
}

/** The families whose rules this kernel can have. */
async function familiesWithRules({ kernel, flavour, log }: OpenModeOptions): Promise<readonly IpFamily[]> {
  if (flavour === 'nft') return await familiesWithSetRules({ kernel, log })
  return await familiesWithXtables({
    kernel,
    tables: ipvsTables,
    log,
    // Not awaited: only the first write needs the modules.
    onFound: (family) => void loadForChains(kernel, family),
  })
}

/** The mode on a kernel that is ready. Each reconcile restores `settings`. `families`: those whose x_tables the kernel has. */
export function ipvsMode(
  options: ModeOptions,
  settings: IpvsSettings,
  families: readonly IpFamily[] = ['ipv4', 'ipv6'],
): Mode {
  const { config, kernel, log, metrics, flavour } = options
  const { excludeCIDRs, gracefulPeriodMs, syncPeriodMs, minSyncPeriodMs } = config.ipvs
  const { vipBinding } = config
  const hints = openVipHints(log)
  const warnings = openWarnings(options)
  const unmet = new UnmetServices(warnings)
  const isExcluded = (address: IpAddress): boolean => excludeCIDRs.some((cidr) => cidrContains(cidr, address))
  const look = kernel.look(flavour === 'legacy' ? families : [])
  const relay = new SharedRelay(kernel.relay, config)
  const pipelines: IpvsPipeline[] = []
  const openPipeline: Mode['openPipeline'] = (family, isHealthy) => {
    const pipeline = new IpvsPipeline({
      ...options,
      look,
      scheduling: new ServiceScheduling({
        family,
        ipvs: kernel.ipvs,
        scheduling: config.ipvs,
        unmet,
      }),
      keepSettings: async () => {
        // Counted once, for IPv4: most of these settings have IPv4 in their names, and each exists once.
        if (family === 'ipv4') metrics.ipv4.drift('setting').inc(await settings.ensure())
      },
      vipBinding,
      syncPeriodMs,
      minSyncPeriodMs,
      isExcluded,
      gracefulPeriodMs,
      hints,
      warnings,
      family,
      metrics: metrics[family],
      localhostNodePorts: openLocalhostNodePorts({
        ...options,
        mode: 'ipvs',
        family,
        relay,
        metrics: metrics[family],
      }),
      listeners: options.openHealthChecks(family, isHealthy),
    })
    pipelines.push(pipeline)
    return asPipeline(pipeline)
  }
  return {
    name: 'ipvs',
    flavour,
    families,
    openPipeline,
    openWatch: () =>
      withConditionWatch(openIpvsWatch({ ...options, look, pipelines }), {
        ...options,
        mode: 'ipvs',
        families,
      }),
    countRelay: async () => await relay.counters(),
    syncPeriodMs,
    minSyncPeriodMs,
    restFactor: 0,
  }
}

function asPipeline(pipeline: IpvsPipeline): Pipeline {
  return {
    apply: (events) => pipeline.apply(events),
    applyNode: (change) => pipeline.applyNode(change),
    // Another program removed the dummy device, changed lo, or changed an address that matters here. The repair does not wait for
    // the next period.
    applyLinks: (events) => {
      const isConcerned = events.some((event) => concerns(event, pipeline))
      if (isConcerned) pipeline.requestReconcile()
      return pipeline.decisions.applyLinks(events) || isConcerned
    },
    stopSoon: () => pipeline.stopSoon(),
    runOnce: async () => await pipeline.runOnce(),
    get hasRefusals() {
      return pipeline.hasRefusals
    },
    get knowsObjects() {
      return pipeline.knowsObjects
    },
    get isInForce() {
      return pipeline.isInForce
    },
    get isWatchable() {
      return pipeline.isWatchable
    },
    inForceSince: (key) => pipeline.inForceSince(key),
    get passes() {
      return pipeline.passes
    },
    get services() {
      return pipeline.services
    },
    get health() {
      return pipeline.health
    },
    describe: (...route) => pipeline.inspection.describe(...route),
    packetRules: () => pipeline.inspection.packetRules(),
    readCounters: async () => await pipeline.inspection.readCounters(),
    readFlows: async () => await pipeline.inspection.readFlows(),
    differences: async (route) => await pipeline.inspection.differences(route),
    close: async () => await pipeline.close(),
  }
}

function concerns(event: LinkEvent, pipeline: IpvsPipeline): boolean {
  if (event.kind === 'overrun') return true
  // When lo goes down, the kernel removes all routes of lo, and notifies only of the link.
  if (event.kind === 'link')
    return event.name === 'lo' || (event.change === 'remove' && event.name === dummyDeviceName)
  return pipeline.concerns(event)
}
