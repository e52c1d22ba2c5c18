// What of the traffic table is otherwise in ipvs mode, each with its reason; docs/ipvs.md tells operators.
import type { Check, Expectation, TrafficCase, TrafficGroup } from './table/index.js'

interface Difference {
  readonly reason: string
  /** What holds instead of a check of the case. Absent: the mode cannot do what the case shows. */
  readonly instead?: (check: Check) => readonly Check[]
}

const refused: Expectation = { kind: 'refused' }

/** Where the table expects silence. */
function refusedIf(
  isConcerned: (check: Check & { readonly kind: 'flow' }) => boolean,
): (check: Check) => readonly Check[] {
  return (check) => {
    const isRefused = check.kind === 'flow' && check.expect.kind === 'dropped' && isConcerned(check)
    return [isRefused ? { ...check, expect: refused } : check]
  }
}

/** The kernel remembers clients per virtual server, and each frontend has its own (F-041). */
const affinityOfEach: Difference = {
  reason: 'a client keeps its server on each frontend; two of them may lead it to different ones',
  instead: (check) =>
    check.kind === 'affinity' ? check.to.map((target) => ({ ...check, to: [target] })) : [check],
}

/** A refusal where iptables mode, which looks at what the node sends only by cluster IPs, says nothing. */
const refusesTheNode: Difference = {
  reason: 'IPVS refuses what the node itself sends to a VIP without endpoints, whatever VIP it is',
  instead: refusedIf((check) => check.from === 'node'),
}
const loopback: Difference = { reason: 'IPVS takes nothing that is sent to the loopback network' }

/** By the names of cases. */
export const ipvsDifferences: Readonly<Record<string, Difference>> = {
  'a port that the Service does not have is not translated': {
    reason: 'VIPs are addresses of the node: what no Service has of one is refused (F-055)',
    instead: refusedIf(() => true),
  },
  'a Service without a slice refuses': refusesTheNode,
  'a Service whose endpoints are not ready refuses': refusesTheNode,
  'a Service without endpoints refuses under policy Local too': refusesTheNode,
  'a node port answers on 127.0.0.1, never on ::1: policy Cluster': loopback,
  'a node port answers on 127.0.0.1, never on ::1: policy Local': loopback,
  'a client keeps its server over every frontend of a port': affinityOfEach,
  'under policy Local a client keeps its server among those here': affinityOfEach,
  'the session ends after its time-out': {
    reason:
      'the kernel remembers a client while it remembers one of its connections, two minutes after its end',
  },
}

/** The groups as ipvs mode has to meet them. */
export function inIpvs(groups: readonly TrafficGroup[]): readonly TrafficGroup[] {
  return groups.map((group) => ({ ...group, cases: group.cases.flatMap(caseInIpvs) }))
}

function caseInIpvs(row: TrafficCase): readonly TrafficCase[] {
  const difference = ipvsDifferences[row.name]
  if (difference === undefined) return [row]
  const { instead } = difference
  return instead === undefined ? [] : [{ ...row, checks: row.checks.flatMap(instead) }]
}
