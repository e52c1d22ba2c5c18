import type { IpAddress } from '../../address.js'
import type { Admission, ModeView } from '../../engine/index.js'
import { compileDesired } from './compile/compile.js'
import type { DesiredRoute, IpvsLayer, IpvsLayerOptions } from '../../layers/ipvs/index.js'
import { describeServers } from './describe.js'
import { differences } from './differences.js'
import type { IpvsFamilySettings } from './family-settings.js'
import { packetRules } from './packet-rules.js'
import { readCounters } from './read-counters.js'
import { flowsOf } from './read-flows.js'

export interface IpvsViewOptions extends Pick<IpvsLayerOptions, 'family' | 'kernel' | 'clock'> {
  /** The loopback address on which the relay serves node ports; undefined: none. */
  readonly relayedLoopback: IpAddress | undefined
}

/** Answers people about the virtual servers, sets and VIPs of one family. */
export function ipvsView(
  { family, kernel, clock, relayedLoopback }: IpvsViewOptions,
  layer: IpvsLayer,
  admission: Admission,
): ModeView<IpvsFamilySettings, DesiredRoute> {
  return {
    describe: (claim, _settings, isLost) => describeServers(layer.present(claim), isLost),
    packetRules: ({ nodePortAddresses, nodeIP, chains, markMask, masqueradeMark }) => ({
      ...packetRules({
        nodePortAddresses,
        nodeIP,
        localDetector: chains.localDetector,
        masqueradeAll: chains.masqueradeAll,
        relayedLoopback,
        marks: { mask: markMask, masqueradeMark, of: (key) => layer.marks.answerFor(key) },
      }),
      guardOf: (address) => layer.guard.placeOf(address),
      foreignHolder: (port, address) => admission.holderOf(port, address),
    }),
    differences: async (claim) => await differences(layer.present(claim), kernel),
    // Each virtual server is found by its key, and counts since it was made.
    readCounters: async (settings) =>
      await readCounters(family, { ipvs: kernel.ipvs, clock }, (decided) => {
        const served = admission.view(decided)
        return layer.ownOf({ decided, served, desired: compileDesired(served, settings) })
      }),
    readFlows: async () => flowsOf(kernel.ipvs.connections(family)),
  }
}
