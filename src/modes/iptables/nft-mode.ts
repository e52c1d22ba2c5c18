// iptables mode where x_tables live in nf_tables: the Services in a table of their own, the fixed chains in the shared tables.
import type { IpFamily } from '../../address.js'
import type { Mode, ModeOptions, OpenModeOptions, TrafficConfig } from '../../engine/index.js'
import { findsInvalid, inOrder, requireNftCompat, routeLocalnet } from '../../host/index.js'
import {
  familiesWithNftables,
  openNftPipelines,
  TransactionPause,
  transactionPauseMs,
} from '../../layers/nft-table/index.js'
import { hasLateComment, type XtRule } from '../../kernel/index.js'
import {
  chainNames,
  dispatchChains,
  type FixedRuleSource,
  type Skeleton,
  XtablesFixedRules,
} from '../../layers/xtables/index.js'
import { compileHealthCheck } from './compile/compile.js'
import type { IptablesModeSettings } from './compile/settings.js'
import { compileSkeleton, countedRules } from './compile/skeleton.js'
import { iptablesSettings, tableSettings } from './node-settings.js'
import { serveLocalhostAtInit } from './serve-localhost.js'

/** A run after a burst of changes takes milliseconds. A rest of the same time leaves half of a core to other work. */
const restFactor = 1

export interface KernelFacts {
  readonly families: readonly IpFamily[]
  /** The result of `findsInvalid`. */
  readonly dropsInvalid: boolean
}

/** Makes the kernel ready. Throws the error of `conntrack`, and KernelError if nf_tables lacks a feature or may not be used. */
export async function openNftFlavour(options: OpenModeOptions): Promise<Mode> {
  const { kernel, log, conntrack } = options
  const [, , families] = await inOrder([
    conntrack,
    requireNftCompat(kernel.nftables),
    familiesWithNftables({ user: 'iptables mode in the flavour nft', kernel, log }),
  ])
  await serveLocalhostAtInit(options)
  return nftFlavour(options, { families, dropsInvalid: await findsInvalid(kernel.sysctl) })
}

/** The mode on a kernel that is ready. */
export function nftFlavour(options: ModeOptions, { families, dropsInvalid }: KernelFacts): Mode {
  const { config, kernel, clock } = options
  const { syncPeriodMs } = config.iptables
  const minSyncPeriodMs = Math.max(config.iptables.minSyncPeriodMs, transactionPauseMs)
  const transactionPause = new TransactionPause(clock)
  const pipelines = openNftPipelines(options, (family) => {
    const bound = options.metrics[family]
    // The table is written in place of rules: a failure counts as one of kube-proxy's iptables-restore.
    const metrics = { ...bound, nftablesSyncFailures: bound.iptablesRestoreFailures }
    const fixedRules = new XtablesFixedRules({
      ...options,
      family,
      source: fixedRuleSource(family, config, dropsInvalid),
      metrics,
      tables: { nat: kernel.xtables(family, 'nat', 'nft'), filter: kernel.xtables(family, 'filter', 'nft') },
      routeLocalnet: async () => await routeLocalnet(options),
    })
    return {
      config,
      settingsOf: (state) => tableSettings(family, config, state),
      syncPeriodMs,
      minSyncPeriodMs,
      metrics,
      fixedRules,
      transactionPause,
    }
  })
  return {
    name: 'iptables',
    flavour: 'nft',
    families,
    ...pipelines,
    syncPeriodMs,
    minSyncPeriodMs,
    restFactor,
  }
}

function fixedRuleSource(
  family: IpFamily,
  config: TrafficConfig,
  dropsInvalid: boolean,
): FixedRuleSource<IptablesModeSettings> {
  return {
    settings: ({ node, machine }) =>
      // Without the comments of health checks, for the reason of `loadable`.
      iptablesSettings(family, config, { node, machine, dropsInvalid, withComments: false }),
    skeleton: fixedPart,
    healthCheck: compileHealthCheck,
    countedRules,
  }
}

/**
 * The skeleton without what the table of the Services has: the jump from KUBE-SERVICES to KUBE-NODEPORTS in nat, the rules of
 * KUBE-POSTROUTING, and the rule that accepts endpoints which reach themselves. nft lists the match `bpf`, the target MASQUERADE of IPv6
 * behind that of IPv4, and, since 1.1.7, the match `comment`, in a form that it does not load.
 */
function fixedPart(settings: IptablesModeSettings): Skeleton {
  const { chains, hooks, tails } = compileSkeleton(settings)
  return {
    chains: chains.map((each) => {
      if (each.chain === chainNames.postrouting) return { ...each, rules: [] }
      // kubelet looks for its rule with the comment, and adds another one if it does not find it.
      return each.chain === chainNames.firewall ? each : { ...each, rules: loadable(each.rules) }
    }),
    hooks,
    tails: tails
      .filter(({ dispatch }) => dispatch !== dispatchChains.services)
      .map(({ dispatch, rules }) => ({ dispatch, rules: loadable(rules) })),
  }
}

/** Only a comment that comes last is no match (encodeXtRule). */
function loadable(rules: readonly XtRule[]): readonly XtRule[] {
  return rules
    .filter(({ isSourceDestination }) => isSourceDestination !== true)
    .map(({ comment, ...rule }) =>
      comment === undefined || !hasLateComment(rule.target) ? rule : { ...rule, comment },
    )
}
