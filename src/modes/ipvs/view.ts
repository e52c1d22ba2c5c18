import type { IpAddress } from '../../address.js'
import type { Admission, ModeView, PacketRules, ServiceMarks, ServiceFlow } from '../../engine/index.js'
import { compileDesired, type IpvsModeSettings } from './compile/compile.js'
import type { DesiredRoute, IpvsLayer, IpvsContext, IpvsChainSettings } from '../../layers/ipvs/index.js'
import { hostCidr } from '../../layers/relay/index.js'
import { iptablesPacketRules } from '../../layers/shared/index.js'
import type { IpvsConnection } from '../../kernel/index.js'
import { describeServers } from './describe.js'
import { differences } from './differences.js'
import type { IpvsFamilySettings } from './family-settings.js'
import { readCounters } from './read-counters.js'

interface IpvsViewOptions extends Pick<IpvsContext, 'family' | 'kernel' | 'clock'> {
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
    describe: (claim) => describeServers(layer.present(claim)),
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
      await readCounters(family, { ipvs: kernel.ipvs, clock }, (served) =>
        layer.present({ decided: served, served, desired: compileDesired(served, settings) }),
      ),
    readFlows: async () => flowsOf(kernel.ipvs.connections(family)),
  }
}

/** The settings that decide about packets. */
type PacketSettings = Pick<IpvsModeSettings, 'nodePortAddresses' | 'nodeIP'> &
  Pick<IpvsChainSettings, 'localDetector' | 'masqueradeAll'> & {
    /** The loopback address on which the relay serves node ports; undefined: none. */
    readonly relayedLoopback: IpAddress | undefined
    readonly marks: Omit<ServiceMarks, 'chains'>
  }

/** How ipvs mode treats packets with these settings (docs/ipvs.md). */
export function packetRules({ relayedLoopback, marks, ...settings }: PacketSettings): PacketRules {
  return {
    ...iptablesPacketRules,
    ...settings,
    relayedLoopback,
    loopbackNodePorts: relayedLoopback === undefined ? [] : [hostCidr(relayedLoopback)],
    refusedPorts: 'vips',
    refusesNode: true,
    nodePortRefusals: 'served-addresses',
    guardsExternalIPs: true,
    fallsBackToCluster: true,
    firewallHook: 'input',
    nat: { order: -100, chain: 'KUBE-SERVICES' },
    marks: { ...marks, chains: ['KUBE-IPVS-IN', 'KUBE-IPVS-OUT'] },
    sharedChains: {
      all: [
        'KUBE-FIREWALL',
        'KUBE-FORWARD',
        'KUBE-IPVS-FILTER',
        'KUBE-IPVS-IN',
        'KUBE-IPVS-OUT',
        'KUBE-NODE-PORT',
        'KUBE-PROXY-FIREWALL',
      ],
      accepting: ['KUBE-FORWARD', 'KUBE-NODE-PORT'],
    },
  }
}

/** The connections of IPVS. */
async function* flowsOf(connections: AsyncIterable<IpvsConnection>): AsyncGenerator<ServiceFlow> {
  for await (const { protocol, client, virtual, real, state, expiresSeconds } of connections)
    yield {
      protocol,
      source: client.address,
      sourcePort: client.port,
      destination: virtual.address,
      destinationPort: virtual.port,
      endpoint: real,
      state: protocol === 'tcp' ? state : undefined,
      timeoutSeconds: expiresSeconds,
    }
}
