import type { IpFamily } from '../../address.js'
import type { FamilyContext, FamilyMode, Mode, ModeOptions } from '../../engine/index.js'
import { type AfterSyncPart, openFamily, openWarnings } from '../shared/index.js'
import { compileRoute } from './compile/compile.js'
import type { DesiredRoute } from './compile/desired.js'
import { type NftModeSettings, forRoutes, type NftFamilySettings } from './compile/settings.js'
import { describeDesired } from './describe.js'
import { differences } from './differences.js'
import type { FixedRules, NodeState } from './fixed-rules.js'
import { NftLayer, type NftLayerOptions } from './layer.js'
import { packetRules } from './packet-rules.js'
import type { TransactionPause } from './transaction-pause.js'
import { NftModeWatch } from './watch.js'

/** The options in which the families of different modes differ. */
interface OwnOptions {
  readonly config: FamilyContext['config']
  /** The settings of the table. */
  readonly settingsOf: (facts: NodeState) => NftModeSettings
  readonly syncPeriodMs: number
  readonly minSyncPeriodMs: number
  readonly metrics: FamilyContext['metrics']
  /** Rules outside of the table that the mode needs as well. Absent: none. */
  readonly fixedRules?: FixedRules
  /** Shared by both families. Absent: runs follow each other at any time. */
  readonly transactionPause?: TransactionPause
  /** Node ports on localhost, where the relay serves them: their work comes after each sync. Absent: none. */
  readonly localhostNodePorts?: AfterSyncPart | undefined
}

/**
 * The part of a mode that opens its families, and the watch of their tables. The families tell each other the generations of their
 * transactions, which the watch leaves out.
 */
export function openNftPipelines(
  options: ModeOptions,
  ownOptions: (family: IpFamily) => OwnOptions,
): Required<Pick<Mode, 'openPipeline' | 'openWatch'>> {
  const { kernel, log } = options
  const warnings = openWarnings(options)
  const layers: NftLayer[] = []
  const openPipeline: Mode['openPipeline'] = (family, agent) => {
    const own = ownOptions(family)
    const { config, syncPeriodMs, metrics, localhostNodePorts, transactionPause: pause } = own
    return openFamily(options, family, agent, {
      openMode: (context) => {
        const layer: NftLayer = new NftLayer({
          ...context,
          ...own,
          pause,
          nftables: kernel.nftables,
          onApplied: (generation) => {
            for (const other of layers) if (other !== layer) other.table.noteOtherFamily(generation)
          },
        })
        layers.push(layer)
        return familyMode(layer, { ...own, family, nftables: kernel.nftables })
      },
      config,
      syncPeriodMs,
      metrics,
      warnings,
      translates: true,
      localhostNodePorts,
      pause,
      hasPartialSyncs: true,
    })
  }
  return {
    openPipeline,
    openWatch: () => new NftModeWatch({ nftables: kernel.nftables, tables: layers, log }),
  }
}

function familyMode(
  layer: NftLayer,
  {
    family,
    nftables,
    settingsOf,
    localhostNodePorts,
    fixedRules,
  }: OwnOptions & Pick<NftLayerOptions, 'family' | 'nftables'>,
): FamilyMode<NftFamilySettings, DesiredRoute> {
  return {
    settings: ({ node, machine, serviceCidrs }) => ({ ...settingsOf({ node, machine }), serviceCidrs }),
    routeSettings: forRoutes,
    compile: compileRoute,
    layer,
    view: {
      describe: ({ desired }) => describeDesired(desired, family),
      packetRules: (settings) =>
        packetRules(settings, {
          serviceCidrs: settings.serviceCidrs ?? [],
          relayedLoopback: localhostNodePorts?.listensOn,
        }),
      differences: async ({ desired }) => await differences(desired, family, nftables),
      // Without fixed rules: those of the table count no packets.
      ...(fixedRules !== undefined && { countPackets: async () => await fixedRules.countPackets() }),
    },
  }
}
