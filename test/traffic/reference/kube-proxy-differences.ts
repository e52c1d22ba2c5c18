// The differences of the traffic table on the real kube-proxy in nftables mode, each with its reason.
import { caseIn, type Difference, type Differences } from '../table-differences.js'
import { nftablesDifferences } from '../table-in-nftables.js'
import type { TrafficGroup } from '../table/index.js'
import { Slot } from '../table/slot.js'
import { withoutClusterIPCases } from '../table/without-cluster-ip.js'

const keepsFlows: Difference = {
  reason:
    'kube-proxy deletes no UDP flows of a Service without endpoints, and none after a change of a Service alone (F-070, F-071)',
}

const servesConflicts: Difference = {
  reason: 'kube-proxy does not decide which Service has a frontend that two of them want (ADR 7)',
}

const ignoresBareServices: Difference = {
  reason: 'kube-proxy ignores a Service without a cluster IP (F-002)',
}

const kubeProxyDifferences: Differences = {
  ...nftablesDifferences,
  'a UDP flow of a Service that loses its last endpoint is refused': keepsFlows,
  'a UDP flow of a Service that is deleted ends': keepsFlows,
  'a UDP flow by a frontend that its Service loses ends, and the others go on': keepsFlows,
  'of two Services with the same external frontends one has them all, and the other takes over':
    servesConflicts,
  'the owner of a frontend has it even without endpoints: it refuses, and no other server answers':
    servesConflicts,
  "external IPs take no cluster IP and no load balancer's address, and among equals the older Service wins":
    servesConflicts,
  ...Object.fromEntries(
    withoutClusterIPCases.map((at) => [at(new Slot(0, [])).name, ignoresBareServices] as const),
  ),
}

/** The groups as kube-proxy's nftables mode has to meet them. */
export function inKubeProxyNftables(groups: readonly TrafficGroup[]): readonly TrafficGroup[] {
  return groups.map((group) => ({
    ...group,
    cases: group.cases.flatMap((row) => caseIn(row, kubeProxyDifferences[row.name])),
  }))
}
