import {
  type Admission,
  type ModeView,
  boundedLines,
  type PacketRules,
  type ServiceFlow,
} from '../../engine/index.js'
import { addressesOf, type Route } from '../../routing/index.js'
import type { DesiredRoute, RelayRouteSettings } from '../../layers/relay/index.js'
import { formatCidr, formatEndpoint } from '../../address.js'
import { describeRelayListener, type RelayFlow } from '../../kernel/index.js'
import { describeVipRoute } from '../../layers/vips/index.js'
import type { LocalDetector } from '../../node/index.js'
import { iptablesPacketRules } from '../../layers/shared/index.js'
import { differences } from './differences.js'
import type { UserspaceLayer, UserspaceLayerOptions } from './layer.js'
import type { UserspaceSettings } from './node-settings.js'

/** Answers people about the relay and the VIPs of one family. */
export function userspaceView(
  { family, relay, ports, routes }: Pick<UserspaceLayerOptions, 'family' | 'relay' | 'ports' | 'routes'>,
  { guard, table }: UserspaceLayer,
  admission: Admission,
): ModeView<UserspaceSettings, DesiredRoute> {
  return {
    describe: ({ served, desired }, settings) => describeDesired(served, desired, settings),
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

/**
 * `listen tcp 10.96.0.1:80 near cluster far local`, then the endpoints of policy Cluster, of policy Local, and those that only keep UDP flows;
 * at most as many lines as `boundedLines` allows.
 */
export function describeDesired(
  route: Route,
  desired: DesiredRoute,
  settings: Pick<RelayRouteSettings, 'nodeIP'>,
): readonly string[] {
  return boundedLines(linesOf(route, desired, settings))
}

function* linesOf(
  route: Route,
  { service, frontends }: DesiredRoute,
  { nodeIP }: Pick<RelayRouteSettings, 'nodeIP'>,
): Generator<string> {
  for (const vip of addressesOf(route)) yield describeVipRoute(vip, nodeIP)
  const listeners = frontends.flatMap((frontend) => frontend.listeners)
  for (const listener of listeners) {
    const ranges = listener.hasSourceRanges
      ? ` sources ${service.sourceRanges.map(formatCidr).join(',')}`
      : ''
    yield `listen ${describeRelayListener(listener)} near ${listener.near} far ${listener.far}${ranges}`
  }
  if (listeners.length === 0) return
  if (service.affinitySeconds !== undefined) yield `affinity ${service.affinitySeconds}s`
  for (const { address, port } of service.clusterEndpoints) yield `cluster ${formatEndpoint(address, port)}`
  for (const { address, port } of service.localEndpoints) yield `local ${formatEndpoint(address, port)}`
  const chosen = new Set([...service.clusterEndpoints, ...service.localEndpoints])
  for (const endpoint of service.flowEndpoints)
    if (!chosen.has(endpoint)) yield `flows ${formatEndpoint(endpoint.address, endpoint.port)}`
}

/** How the relay treats connections with these settings (docs/userspace.md). */
export function packetRules(
  { nodePortAddresses, nodeIP }: Pick<RelayRouteSettings, 'nodePortAddresses' | 'nodeIP'>,
  localDetector: LocalDetector | undefined,
): PacketRules {
  return {
    ...iptablesPacketRules,
    nodePortAddresses,
    nodeIP,
    localDetector,
    masqueradeAll: false,
    loopbackNodePorts: [],
    refusedPorts: 'vips',
    refusesNode: true,
    nodePortRefusals: 'none',
    guardsExternalIPs: true,
    isRelayed: true,
    firewallHook: 'input',
    sharedChains: { all: [], accepting: [] },
  }
}

/** The connections and flows of the relay. Until the endpoint has accepted a connection, its state is SYN_SENT. */
function* flowsOf(flows: Iterable<RelayFlow>): Generator<ServiceFlow> {
  for (const { protocol, client, frontend, endpoint, isConnected } of flows)
    yield {
      protocol,
      source: client.address,
      sourcePort: client.port,
      destination: frontend.address,
      destinationPort: frontend.port,
      endpoint,
      state: protocol === 'udp' ? undefined : isConnected ? 'ESTABLISHED' : 'SYN_SENT',
      timeoutSeconds: undefined,
    }
}
