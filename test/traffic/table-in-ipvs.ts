// What of the traffic table is otherwise in ipvs mode, each with its reason; docs/ipvs.md tells operators.
import type { Check, Expectation, Step, TrafficCase, TrafficGroup } from './table/index.js'
import type { Protocol } from './table/world.js'

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
/** F-055. */
const refusesWhatNoServiceHas: Difference = {
  reason: 'VIPs are addresses of the node: what no Service has of one is refused (F-055)',
  instead: refusedIf(() => true),
}

/** The operator's own rules see a request where it comes in, before a server is chosen. */
const meetsFirewallAtInput: Difference = {
  reason:
    'IPVS takes requests at INPUT: the rules there decide on what is not masqueraded, not those of FORWARD',
  // The firewall of these cases lets UDP come in.
  instead: (check) => (isOf('UDP')(check) ? [] : [check]),
}

function isOf(protocol: Protocol): (check: Check) => boolean {
  return (check) => check.kind === 'flow' && check.to.protocol === protocol
}

const loopback: Difference = { reason: 'IPVS takes nothing that is sent to the loopback network' }

/** By the names of cases. */
export const ipvsDifferences: Readonly<Record<string, Difference>> = {
  'a port that the Service does not have is not translated': refusesWhatNoServiceHas,
  'the same number in a protocol that the Service does not have is not translated': refusesWhatNoServiceHas,
  'what is not masqueraded is the business of that firewall': meetsFirewallAtInput,
  'a pod that is its own server passes as well': {
    reason:
      'a request comes in at INPUT before IPVS chooses the server: nobody knows yet that it is the client itself',
    // The firewall of this case lets UDP come in.
    instead: (check) => (isOf('UDP')(check) ? [check] : []),
  },
  "connections, UDP flows and affinity go on over a takeover from kube-proxy's rules": {
    reason: "IPVS cannot be told whom kube-proxy's rules of iptables mode remember: affinity begins anew",
    instead: (check) => (check.kind === 'affinity' ? [] : [check]),
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

/** What holds at a step is what holds at first, unless the mode differs. */
function stepIn(step: Step, instead: (check: Check) => readonly Check[]): Step {
  return 'checks' in step ? { ...step, checks: step.checks.flatMap(instead) } : step
}

function caseInIpvs(row: TrafficCase): readonly TrafficCase[] {
  const difference = ipvsDifferences[row.name]
  if (difference === undefined) return [row]
  const { instead } = difference
  return instead === undefined
    ? []
    : [
        {
          ...row,
          checks: row.checks.flatMap(instead),
          ...(row.steps === undefined ? {} : { steps: row.steps.map((step) => stepIn(step, instead)) }),
        },
      ]
}
