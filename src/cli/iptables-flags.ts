// Flags of iptables mode, and of what it shares with the other modes that work by rules.
import { parseDuration, type ConfigInput } from '../config/index.js'
import type { Flag } from './flag.js'
import { parseBoolean, parseNumber, splitList } from './values.js'

type IptablesInput = NonNullable<ConfigInput['iptables']>

export const iptablesFlags: readonly Flag[] = [
  {
    name: 'iptables-masquerade-bit',
    value: 'BIT',
    field: 'iptables.masqueradeBit',
    help: 'bit of the packet mark that asks for masquerading: 0 to 31 (default 14)',
    take: (input, text) =>
      withIptables(input, { masqueradeBit: parseNumber('iptables.masqueradeBit', text) }),
  },
  {
    name: 'masquerade-all',
    value: undefined,
    field: 'iptables.masqueradeAll',
    help: 'masquerade everything that goes to a cluster IP',
    take: (input, text) =>
      withIptables(input, { masqueradeAll: parseBoolean('iptables.masqueradeAll', text) }),
  },
  {
    name: 'iptables-localhost-nodeports',
    value: undefined,
    field: 'iptables.localhostNodePorts',
    help: 'node ports on 127.0.0.0/8 too (default true)',
    take: (input, text) =>
      withIptables(input, { localhostNodePorts: parseBoolean('iptables.localhostNodePorts', text) }),
  },
  {
    name: 'iptables-sync-period',
    value: 'DURATION',
    field: 'iptables.syncPeriod',
    help: 'when tables are compared with what they should hold after a write; up to 10 times later at rest (default 30s)',
    take: (input, text) => withIptables(input, { syncPeriodMs: parseDuration('iptables.syncPeriod', text) }),
  },
  {
    name: 'iptables-min-sync-period',
    value: 'DURATION',
    field: 'iptables.minSyncPeriod',
    help: 'shortest time between two syncs (default 0: at once when idle)',
    take: (input, text) =>
      withIptables(input, { minSyncPeriodMs: parseDuration('iptables.minSyncPeriod', text) }),
  },
  {
    name: 'cluster-cidr',
    value: 'CIDRS',
    field: 'clusterCIDR',
    help: "the pods' network, or one of each family separated by a comma",
    take: (input, text) => ({ ...input, clusterCIDR: splitList(text) }),
  },
  {
    name: 'detect-local-mode',
    value: 'MODE',
    field: 'detectLocalMode',
    help: 'how traffic of pods is known: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix (default ClusterCIDR)',
    take: (input, text) => ({ ...input, detectLocalMode: text }),
  },
  {
    name: 'pod-bridge-interface',
    value: 'NAME',
    field: 'detectLocal.bridgeInterface',
    help: "the pods' bridge, for mode BridgeInterface",
    take: (input, text) => ({ ...input, detectLocal: { ...input.detectLocal, bridgeInterface: text } }),
  },
  {
    name: 'pod-interface-name-prefix',
    value: 'PREFIX',
    field: 'detectLocal.interfaceNamePrefix',
    help: "how names of the pods' interfaces begin, for mode InterfaceNamePrefix",
    take: (input, text) => ({ ...input, detectLocal: { ...input.detectLocal, interfaceNamePrefix: text } }),
  },
  {
    name: 'nodeport-addresses',
    isAdded: true,
    value: 'CIDRS',
    field: 'nodePortAddresses',
    help: 'networks, separated by commas, whose local addresses take node ports, or primary: the node IPs; may be repeated (default all)',
    take: (input, text) => ({
      ...input,
      nodePortAddresses: [...(input.nodePortAddresses ?? []), ...splitList(text)],
    }),
  },
]

function withIptables(input: ConfigInput, changes: IptablesInput): ConfigInput {
  return { ...input, iptables: { ...input.iptables, ...changes } }
}
