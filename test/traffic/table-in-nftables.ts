// The differences of the traffic table in nftables mode, each with its reason. docs/nftables.md has them for operators.
import {
  caseIn,
  type Difference,
  type Differences,
  dropped,
  flowsExpect,
  refused,
  refusedIf,
} from './table-differences.js'
import type { TrafficGroup } from './table/index.js'
import { loopback, secondNodeAddress } from './table/world.js'

/** Addresses of the network of cluster IPs. */
const clusterIPs = /^(?:10\.96\.|fd00:10:96:)/u

const refusesUnusedPorts: Difference = {
  reason: 'unused ports of a cluster IP are refused, in any protocol (F-055)',
  instead: refusedIf(({ to }) => clusterIPs.test(to.address)),
}

const refusesTheNode: Difference = {
  reason: 'connections of the node itself to a Service without endpoints are refused on any frontend (F-053)',
  instead: refusedIf(({ from }) => from === 'node'),
}

const loopbackAddresses: readonly string[] = Object.values(loopback)
const noLoopback: Difference = {
  reason: 'the mode never serves node ports on loopback addresses (F-064)',
  instead: flowsExpect(refused, ({ to }) => loopbackAddresses.includes(to.address) && to.port >= 30_000),
}

const secondAddresses: readonly string[] = Object.values(secondNodeAddress)
const onPrimaryAddresses: Difference = {
  reason: "node ports are on the Node object's own addresses by default (F-062)",
  instead: (check) => {
    const isConcerned =
      (check.kind === 'flow' || check.kind === 'ask') && secondAddresses.includes(check.to.address)
    return [isConcerned ? { ...check, expect: refused } : check]
  },
}

const leavesTheFirewallAlone: Difference = {
  reason: "the mode accepts no packets on behalf of the node's own firewall (F-057)",
  instead: (check) => {
    if (check.kind === 'flow') return [{ ...check, expect: dropped }]
    if (check.kind !== 'http') return [check]
    return [{ kind: 'flow', from: check.from, to: { ...check.to, protocol: 'TCP' }, expect: dropped }]
  },
}

/** By the names of cases. */
export const nftablesDifferences: Differences = {
  'a port that the Service does not have is not translated': refusesUnusedPorts,
  'the same number in a protocol that the Service does not have is not translated': refusesUnusedPorts,
  'an address in the ServiceCIDRs that no Service has is not translated': {
    reason: 'connections to unknown addresses in the ServiceCIDRs are dropped (F-055)',
    instead: flowsExpect(dropped, () => true),
  },
  'a Service without a slice refuses': refusesTheNode,
  'a Service whose endpoints are not ready refuses': refusesTheNode,
  'a Service without endpoints refuses under policy Local too': refusesTheNode,
  'a node port is served on every address of the node': onPrimaryAddresses,
  'a UDP flow to a node port moves with its backend at every address of the node': onPrimaryAddresses,
  'a node port answers on 127.0.0.1, never on ::1: policy Cluster': noLoopback,
  'a node port answers on 127.0.0.1, never on ::1: policy Local': noLoopback,
  'a remote pod that is its own server behind node-a sees node-a': {
    reason:
      'only endpoints on this node are masqueraded towards themselves, as by kube-proxy in this mode (F-050)',
    instead: flowsExpect(dropped, () => true),
  },
  'a segment that belongs to no connection: dropped': {
    reason: 'the mode drops no packets that belong to no connection (F-058)',
    instead: (check) => [check.kind === 'stray' ? { ...check, expect: 'arrives' } : check],
  },
  'what is masqueraded passes a firewall that forwards nothing, with its replies': leavesTheFirewallAlone,
  'a pod that is its own server passes as well': leavesTheFirewallAlone,
  'the health check port is let in': leavesTheFirewallAlone,
  "an external IP that is a load balancer's address as well, with source ranges": {
    reason:
      "the source ranges guard a load balancer's address that is an external IP too, as by kube-proxy in this mode (F-056)",
    instead: flowsExpect(dropped, ({ from }) => from !== 'outside'),
  },
  "connections, UDP flows and affinity go on over a takeover from kube-proxy's rules": {
    reason: "the mode does not read the clients that kube-proxy's rules of iptables mode remember",
    instead: (check) => (check.kind === 'affinity' ? [] : [check]),
  },
}

/** The groups as nftables mode has to meet them. */
export function inNftables(groups: readonly TrafficGroup[]): readonly TrafficGroup[] {
  return groups.map((group) => ({
    ...group,
    cases: group.cases.flatMap((row) => caseIn(row, nftablesDifferences[row.name])),
  }))
}
