import { type FamilyContext, type ModeView, boundedLines, type PacketRules } from '../../engine/index.js'
import { endpointRules } from './compile/compile.js'
import {
  type DesiredRoute,
  differences,
  PacketCounts,
  readCounters,
  type XtablesLayer,
  type IptablesTable,
  chainNames,
} from '../../layers/xtables/index.js'
import type { IptablesModeSettings } from './compile/settings.js'
import { countedRules } from './compile/skeleton.js'
import type { IpFamily } from '../../address.js'
import { describeXtRule } from '../../kernel/index.js'
import { loopbackNetworks } from '../../node/index.js'
import { iptablesPacketRules } from '../../layers/shared/index.js'

/** Answers people about the tables of one family. */
export function iptablesView(
  { family, clock }: Pick<FamilyContext, 'family' | 'clock'>,
  layer: XtablesLayer<IptablesModeSettings>,
): ModeView<IptablesModeSettings, DesiredRoute> {
  const { tables } = layer
  const packets = new PacketCounts(tables.filter)
  return {
    describe: ({ desired }) => describeDesired(desired, family),
    packetRules,
    differences: async ({ desired }) => await differences(desired, tables),
    // Otherwise the rules in these places may belong to another program.
    countPackets: async (settings) =>
      await packets.read(layer.isInOrder && settings !== undefined ? countedRules(settings) : {}),
    readCounters: async (settings, isOfReading) => {
      const { ledger } = layer
      if (ledger === undefined) return undefined
      return await readCounters(
        { ledger, nat: tables.nat, clock },
        { endpointRules: (decided) => endpointRules(decided, settings), isOfReading },
      )
    },
  }
}

const tables: readonly IptablesTable[] = ['nat', 'filter']

/**
 * For each table its name, the chains of the route, and their rules. The rules of frontends appear in the dispatch chain. If that
 * chain has more than 16 frontends, the kernel may have such a rule in one of the chain's buckets instead.
 */
export function describeDesired(desired: DesiredRoute, family: IpFamily): readonly string[] {
  return boundedLines(linesOf(desired, family))
}

function* linesOf(desired: DesiredRoute, family: IpFamily): Generator<string> {
  for (const table of tables) {
    const chains = desired.chains.filter((chain) => chain.table === table)
    const frontends = desired.frontends.filter(({ dispatch }) => dispatch.table === table)
    if (chains.length + frontends.length > 0) yield `*${table}`
    for (const { chain } of chains) yield `:${chain} - [0:0]`
    for (const { dispatch, rules } of frontends)
      for (const rule of rules) yield `-A ${dispatch.chain} ${describeXtRule(rule, family)}`
    for (const { chain, rules } of chains)
      for (const rule of rules) yield `-A ${chain} ${describeXtRule(rule, family)}`
  }
}

/** How iptables mode treats packets with these settings. */
export function packetRules(settings: IptablesModeSettings): PacketRules {
  const { localDetector, masqueradeAll, nodePortAddresses, localhostNodePorts, nodeIP } = settings
  return {
    ...iptablesPacketRules,
    localDetector,
    masqueradeAll,
    nodePortAddresses,
    loopbackNodePorts: localhostNodePorts && nodePortAddresses === 'all' ? [loopbackNetworks.ipv4] : [],
    nodeIP,
    nat: { order: -100, chain: chainNames.services },
  }
}
