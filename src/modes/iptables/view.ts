import type { FamilyContext, ModeView } from '../../engine/index.js'
import { endpointRules } from './compile/compile.js'
import {
  type DesiredRoute,
  differences,
  PacketCounts,
  readCounters,
  type XtablesLayer,
} from '../../layers/xtables/index.js'
import type { IptablesModeSettings } from './compile/settings.js'
import { countedRules } from './compile/skeleton.js'
import { describeDesired } from './describe.js'
import { packetRules } from './packet-rules.js'

/** Answers people about the tables of one family. */
export function iptablesView(
  { family, clock }: Pick<FamilyContext, 'family' | 'clock'>,
  layer: XtablesLayer<IptablesModeSettings>,
): ModeView<IptablesModeSettings, DesiredRoute> {
  const { tables } = layer
  const packets = new PacketCounts(tables.filter)
  return {
    describe: ({ desired }, _settings, isLost) => describeDesired(desired, family, isLost),
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
