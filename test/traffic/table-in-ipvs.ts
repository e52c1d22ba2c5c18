// What of the traffic table is otherwise in ipvs mode, each with its reason; docs/ipvs.md tells operators.
import type { Check, Expectation, TrafficCase, TrafficGroup } from './table/index.js'

interface Difference {
  readonly reason: string
  /** What a flow meets instead; undefined: what the table says. Absent: the mode cannot do what the case shows. */
  readonly expect?: (check: Check & { readonly kind: 'flow' }) => Expectation | undefined
}

const refused: Expectation = { kind: 'refused' }
const isDropped = (check: Check & { readonly kind: 'flow' }): boolean => check.expect.kind === 'dropped'

/** A refusal where iptables mode, which looks at what the node sends only by cluster IPs, says nothing. */
const refusesTheNode: Difference = {
  reason: 'IPVS refuses what the node itself sends to a VIP without endpoints, whatever VIP it is',
  expect: (check) => (check.from === 'node' && isDropped(check) ? refused : undefined),
}
const loopback: Difference = { reason: 'IPVS takes nothing that is sent to the loopback network' }

/** By the names of cases. */
export const ipvsDifferences: Readonly<Record<string, Difference>> = {
  'a port that the Service does not have is not translated': {
    reason: 'VIPs are addresses of the node: what no Service has of one is refused (F-055)',
    expect: (check) => (isDropped(check) ? refused : undefined),
  },
  'a Service without a slice refuses': refusesTheNode,
  'a Service whose endpoints are not ready refuses': refusesTheNode,
  'a Service without endpoints refuses under policy Local too': refusesTheNode,
  'a node port answers on 127.0.0.1, never on ::1: policy Cluster': loopback,
  'a node port answers on 127.0.0.1, never on ::1: policy Local': loopback,
  'a client keeps its server over every frontend of a port': {
    reason: 'the kernel remembers clients per virtual server, and each frontend has its own (F-041)',
  },
  'the session ends after its time-out': {
    reason:
      'the kernel remembers a client while it remembers one of its connections, two minutes after its end',
  },
  'a segment that belongs to no connection: dropped': {
    reason: 'kube-proxy drops such segments in iptables mode alone (F-058)',
  },
}

/** The groups as ipvs mode has to meet them. */
export function inIpvs(groups: readonly TrafficGroup[]): readonly TrafficGroup[] {
  return groups.map((group) => ({ ...group, cases: group.cases.flatMap(caseInIpvs) }))
}

function caseInIpvs(row: TrafficCase): readonly TrafficCase[] {
  const difference = ipvsDifferences[row.name]
  if (difference === undefined) return [row]
  const { expect } = difference
  if (expect === undefined) return []
  const checks = row.checks.map((check) =>
    check.kind === 'flow' ? { ...check, expect: expect(check) ?? check.expect } : check,
  )
  return [{ ...row, checks }]
}
