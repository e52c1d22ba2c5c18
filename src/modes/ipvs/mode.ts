import { type IpAddress, type IpFamily, cidrContains } from '../../address.js'
import type { FamilyMode, Mode, ModeOptions, OpenModeOptions } from '../../engine/index.js'
import { familiesWithXtables, inOrder } from '../../host/index.js'
import { openLocalhostNodePorts, SharedRelay, withConditionWatch } from '../../layers/relay/index.js'
import { openFamily, openWarnings } from '../../layers/shared/index.js'
import { ForeignAddresses, openVipHints } from '../../layers/vips/index.js'
import {
  type DesiredRoute,
  IpvsLayer,
  type IpvsContext,
  ipvsTables,
  loadForChains,
} from '../../layers/ipvs/index.js'
import { compileDesired } from './compile/compile.js'
import { familySettings, forRoutes, type IpvsFamilySettings } from './family-settings.js'
import { prepareKernel } from './prepare-kernel.js'
import { familiesWithSetRules } from './rules-probe.js'
import { ServiceScheduling, UnmetServices } from './service-scheduling.js'
import { IpvsSettings } from './settings.js'
import { ipvsView } from './view.js'
import { openIpvsWatch } from './watch.js'

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
  const { excludeCIDRs, syncPeriodMs, minSyncPeriodMs } = config.ipvs
  const warnings = openWarnings(options)
  const look = kernel.look(flavour === 'legacy' ? families : [])
  const relay = new SharedRelay(kernel.relay, config)
  const layers: IpvsLayer[] = []
  const shared = {
    look,
    hints: openVipHints(log),
    unmet: new UnmetServices(warnings),
    vipBinding: config.vipBinding,
    minSyncPeriodMs,
    isExcluded: (address: IpAddress): boolean => excludeCIDRs.some((cidr) => cidrContains(cidr, address)),
  }
  const openPipeline: Mode['openPipeline'] = (family, agent) => {
    const localhostNodePorts = openLocalhostNodePorts({
      ...options,
      mode: 'ipvs',
      family,
      relay,
      metrics: metrics[family],
    })
    return openFamily(options, family, agent, {
      openMode: (context) => {
        const scheduling = new ServiceScheduling({
          ...shared,
          family,
          ipvs: kernel.ipvs,
          scheduling: config.ipvs,
        })
        const layerOptions = {
          ...options,
          ...context,
          ...shared,
          config,
          scheduling,
          keepSettings: async () => {
            // Counted once, for IPv4: most of these settings have IPv4 in their names, and each exists once.
            if (family === 'ipv4') metrics.ipv4.drift('setting').inc(await settings.ensure())
          },
        }
        const layer = new IpvsLayer(layerOptions)
        layers.push(layer)
        return familyMode(layerOptions, layer, localhostNodePorts?.listensOn)
      },
      syncPeriodMs,
      warnings,
      translates: true,
      needsMachine: true,
      localhostNodePorts,
    })
  }
  return {
    name: 'ipvs',
    flavour,
    families,
    openPipeline,
    openWatch: () =>
      withConditionWatch(openIpvsWatch({ ...options, look, layers }), { ...options, mode: 'ipvs', families }),
    countRelay: async () => await relay.counters(),
    syncPeriodMs,
    minSyncPeriodMs,
    restFactor: 0,
  }
}

function familyMode(
  options: IpvsContext & { readonly scheduling: ServiceScheduling },
  layer: IpvsLayer,
  relayedLoopback: IpAddress | undefined,
): FamilyMode<IpvsFamilySettings, DesiredRoute> {
  const { family, config, kernel, scheduling } = options
  const admission = new ForeignAddresses({ ...options, routes: kernel.routes })
  return {
    settings: (facts) => familySettings({ family, config, scheduling: scheduling.settings }, facts),
    routeSettings: forRoutes,
    nodePortAddresses: ({ nodePortAddresses }) => nodePortAddresses,
    nodePortPlaces: ({ nodePortAddresses }) => nodePortAddresses,
    prepare: (served) => (scheduling.concerns(served) ? scheduling.settle(served) : undefined),
    compile: compileDesired,
    layer,
    view: ipvsView({ ...options, relayedLoopback }, layer, admission),
    admission,
  }
}
