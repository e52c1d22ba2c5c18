import { familiesWithXtables, findsInvalid, inOrder, routeLocalnet } from '../../host/index.js'
import { openFamily, openWarnings } from '../../layers/shared/index.js'
import { compileRoute } from './compile/compile.js'
import { type DesiredRoute, type LookSchedule, XtablesLayer } from '../../layers/xtables/index.js'
import type { IptablesModeSettings } from './compile/settings.js'
import { compileSkeleton } from './compile/skeleton.js'
import { iptablesSettings } from './node-settings.js'
import { iptablesView } from './view.js'
import { nftFlavour, openNftFlavour, type KernelFacts } from './nft-mode.js'
import { serveLocalhostAtInit } from './serve-localhost.js'
import {
  type FamilyContext,
  type FamilyMode,
  type FamilyParts,
  type Mode,
  type ModeOptions,
  type OpenModeOptions,
  openKernelWatch,
} from '../../engine/index.js'

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
  const lookSchedules: LookSchedule[] = []
  const openPipeline: Mode['openPipeline'] = (family, agent) =>
    openFamily(options, family, agent, {
      openMode: (context) => {
        const layer = openLayer(options, context)
        lookSchedules.push(layer.lookSchedule)
        return familyMode(context, layer, dropsInvalid)
      },
      syncPeriodMs,
      warnings,
      translates: true,
      hasPartialSyncs: true,
      onPartialFailure: () => metrics[family].iptablesPartialRestoreFailures.inc(),
    })
  const openWatch: NonNullable<Mode['openWatch']> = () =>
    openKernelWatch({ open: () => kernel.look(families).watchTables(), pipelines: lookSchedules, log })
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

function openLayer(
  options: ModeOptions,
  context: FamilyContext & FamilyParts,
): XtablesLayer<IptablesModeSettings> {
  const { kernel } = options
  return new XtablesLayer({
    ...options,
    ...context,
    skeletonOf: compileSkeleton,
    routeLocalnet: async () => await routeLocalnet(options),
    tables: {
      nat: kernel.xtables(context.family, 'nat', 'legacy'),
      filter: kernel.xtables(context.family, 'filter', 'legacy'),
    },
  })
}

function familyMode(
  { family, config, clock }: FamilyContext,
  layer: XtablesLayer<IptablesModeSettings>,
  dropsInvalid: boolean,
): FamilyMode<IptablesModeSettings, DesiredRoute> {
  return {
    settings: ({ node, machine, isLarge }) =>
      iptablesSettings(family, config, { node, machine, dropsInvalid, withComments: !isLarge }),
    routeSettings: (settings) => ({
      ...settings,
      nodePortAddresses: 'all',
      dropsInvalid: true,
      localhostNodePorts: true,
    }),
    compile: compileRoute,
    layer,
    view: iptablesView({ family, clock }, layer),
  }
}
