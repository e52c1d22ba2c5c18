// The differences of the traffic table in ipvs mode, each with its reason. docs/ipvs.md has them for operators.
import {
  affinityOfEach,
  caseIn,
  type Difference,
  type Differences,
  dropped,
  refusedIf,
} from './table-differences.js'
import type { TrafficGroup } from './table/index.js'
import { targetPort } from './table/slot.js'
import { server } from './table/world.js'

/** A refusal where iptables mode, which looks at what the node sends only by cluster IPs, says nothing. */
const refusesTheNode: Difference = {
  reason: 'IPVS refuses packets of the node itself to any VIP without endpoints',
  instead: refusedIf((check) => check.from === 'node'),
}
/** F-055. */
const refusesWhatNoServiceHas: Difference = {
  reason: 'VIPs are addresses of the node: what no Service has of one is refused (F-055)',
  instead: refusedIf(() => true),
}

/** The operator's own rules see a request where it comes in, before a server is chosen, as in kube-proxy. */
const meetsFirewallAtInput: Difference = {
  reason: 'IPVS takes requests at INPUT: the rules there decide, not those of FORWARD',
  // The firewall of these cases lets no TCP come in, and everything else.
  instead: (check) => {
    if (check.kind !== 'flow') return [check]
    if (check.to.protocol === 'TCP') return [{ ...check, expect: dropped }]
    return check.expect.kind === 'dropped' ? [] : [check]
  },
}

/** Servers of node-a's pods. */
const isHere = (text: string): boolean => /^(?:10\.244\.1\.|fd00:10:244:1::)/u.test(text)

/** The kernel compares the whole mark: with a foreign bit in it pods meet what kube-proxy gives them. */
const marksByOthers: Difference = {
  reason: 'a mark that others change leads to no virtual server: pods meet the endpoints here (F-052)',
  instead: (check) => {
    if (check.kind !== 'flow' || ['node', 'outside'].includes(check.from)) return [check]
    const { expect } = check
    if (expect.kind !== 'answer' || expect.sees !== 'kept') return [check]
    const local = expect.by.filter(isHere)
    return [local.length === 0 ? check : { ...check, expect: { ...expect, by: local } }]
  },
}

const loopback: Difference = { reason: 'IPVS takes nothing that is sent to the loopback network' }

/** By the names of cases. */
export const ipvsDifferences: Differences = {
  'a port that the Service does not have is not translated': refusesWhatNoServiceHas,
  'the same number in a protocol that the Service does not have is not translated': refusesWhatNoServiceHas,
  'what is masqueraded passes a firewall that forwards nothing, with its replies': meetsFirewallAtInput,
  'a pod that is its own server passes as well': meetsFirewallAtInput,
  'what is not masqueraded is the business of that firewall': meetsFirewallAtInput,
  'node ports that a firewall closes at INPUT': {
    reason: 'IPVS takes requests at INPUT: the rules there decide on node ports, as in kube-proxy',
    instead: (check) => [
      check.kind === 'flow' && check.to.protocol === 'TCP' && check.to.port >= 30_000
        ? { ...check, expect: dropped }
        : check,
    ],
  },
  'a bit that others add to marks at INPUT leaves the outside its endpoints here, and its source':
    marksByOthers,
  'a segment that belongs to no connection: dropped': {
    reason: 'kube-proxy drops none in ipvs mode, where it may belong to no Service at all',
    instead: (check) => [check.kind === 'stray' ? { ...check, expect: 'arrives' } : check],
  },
  'policy Local without an endpoint here, where pods cannot be distinguished from outside clients': {
    reason: 'the virtual server then has the endpoints of other nodes for all clients (F-052)',
    instead: (check) =>
      check.kind === 'flow' && check.expect.kind === 'dropped'
        ? [
            {
              ...check,
              expect: {
                kind: 'answer',
                by: [server('b0', check.to.address.includes(':') ? 'IPv6' : 'IPv4', targetPort)],
                sees: 'kept',
              },
            },
          ]
        : [check],
  },
  "an external IP that is a load balancer's address as well, with source ranges": {
    reason: 'kube-proxy enters the address into the sets of load balancers regardless (F-056)',
    instead: (check) => [
      check.kind === 'flow' && check.from === 'a1' ? { ...check, expect: dropped } : check,
    ],
  },
  "connections, UDP flows and affinity go on over a takeover from kube-proxy's rules": {
    reason:
      "IPVS cannot take over the clients that kube-proxy's rules of iptables mode remember: affinity starts again",
    instead: (check) => (check.kind === 'affinity' ? [] : [check]),
  },
  'a Service without a slice refuses': refusesTheNode,
  'a Service whose endpoints are not ready refuses': refusesTheNode,
  'a Service without endpoints refuses under policy Local too': refusesTheNode,
  'a node port answers on 127.0.0.1, never on ::1: policy Cluster': loopback,
  'a node port answers on 127.0.0.1, never on ::1: policy Local': loopback,
  'a client keeps its server over every frontend of a port': affinityOfEach,
  'under policy Local a client keeps its server among those here': affinityOfEach,
  'under external policy Local pods and the node keep a server of all, other clients one of those here':
    affinityOfEach,
  'the session ends after its time-out': {
    reason:
      'the kernel remembers a client while it remembers one of its connections, two minutes after its end',
  },
}

/** Groups on a node whose other rules change marks before IPVS sees them: of all their cases. */
const markChangingGroups: ReadonlySet<string> = new Set([
  'masquerade all, by another bit; no localhost node ports; liberal conntrack',
])

/** The groups as ipvs mode has to meet them. */
export function inIpvs(groups: readonly TrafficGroup[]): readonly TrafficGroup[] {
  return groups.map((group) => {
    const cases = group.cases.flatMap((row) => caseIn(row, ipvsDifferences[row.name]))
    if (!markChangingGroups.has(group.name)) return { ...group, cases }
    return { ...group, cases: cases.flatMap((row) => caseIn(row, marksByOthers)) }
  })
}
