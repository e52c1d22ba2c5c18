import type { Admission, ModeView } from '../../engine/index.js'
import { addressesOf } from '../../routing/index.js'
import type { DesiredRoute } from '../../layers/relay/index.js'
import { describeDesired } from './describe.js'
import { differences } from './differences.js'
import type { UserspaceLayer, UserspaceLayerOptions } from './layer.js'
import type { UserspaceSettings } from './node-settings.js'
import { packetRules } from './packet-rules.js'
import { flowsOf } from './read-flows.js'

/** Answers people about the relay and the VIPs of one family. */
export function userspaceView(
  { family, relay, ports, routes }: Pick<UserspaceLayerOptions, 'family' | 'relay' | 'ports' | 'routes'>,
  { guard, table }: UserspaceLayer,
  admission: Admission,
): ModeView<UserspaceSettings, DesiredRoute> {
  return {
    describe: ({ served, desired }, { nodeIP }, isLost) =>
      describeDesired(served, desired, { nodeIP, isLost }),
    packetRules: (settings) => ({
      ...packetRules(settings, settings.localDetector),
      guardOf: (address) => guard.placeOf(address),
      listensAtAll: (protocol, port) => table.listensAtAll(protocol, port),
      foreignHolder: (port, address) => admission.holderOf(port, address),
    }),
    differences: async ({ served, desired }) =>
      await differences({ relayed: desired, vips: [...addressesOf(served)] }, family, { ports, routes }),
    readFlows: async () => flowsOf(await relay.relay.flows(family)),
  }
}
