// The differences of the traffic table in userspace mode, each with its reason. docs/userspace.md has them for operators.
import { type Difference, type Differences, caseIn, dropped, refused } from './table-differences.js'
import type { Check, Expectation, Step, TrafficCase, TrafficGroup } from './table/index.js'
import { targetPort } from './table/slot.js'
import { elsewhere, familyOf, loopback, server } from './table/world.js'

const reset: Expectation = { kind: 'reset' }

/** Flows and requests that the table expects to be dropped. */
function whereDropped(
  expect: (check: Check & { readonly kind: 'flow' | 'ask' }) => Expectation,
): (check: Check) => readonly Check[] {
  return (check) => {
    const isDropped = (check.kind === 'flow' || check.kind === 'ask') && check.expect.kind === 'dropped'
    return [isDropped ? { ...check, expect: expect(check) } : check]
  }
}

/** Cluster IPs, also those outside of their network. */
const clusterIPs = /^(?:10\.96\.|fd00:10:96:)/u
const internalAddresses: readonly string[] = Object.values(elsewhere.internal)
function isClusterIP(address: string): boolean {
  return clusterIPs.test(address) || internalAddresses.includes(address)
}

const refusesUnused: Difference = {
  reason: 'VIPs are addresses of the node: what no Service has of one is refused (F-055)',
  instead: whereDropped(() => refused),
}
const refusesTheNode: Difference = {
  reason: 'the kernel refuses every client of a frontend without endpoints, the node included (F-053)',
  instead: whereDropped(() => refused),
}
/** A cluster IP has no listener then. Other frontends have one, for the node and its pods. */
const cannotDrop: Difference = {
  reason: 'a socket cannot ignore a connection: it is refused, or accepted and reset (F-054, F-056)',
  instead: whereDropped(({ to }) => {
    if (isClusterIP(to.address)) return refused
    return to.protocol === 'TCP' ? reset : dropped
  }),
}

const servesLoopback: Difference = {
  reason: 'node ports are on ::1 too (F-064)',
  instead: (check) => {
    if (check.kind !== 'flow' || check.to.address !== loopback.IPv6 || check.expect.kind !== 'refused')
      return [check]
    return [{ ...check, expect: { kind: 'answer', by: [server('a0', 'IPv6', targetPort)], sees: 'node' } }]
  },
}

/** The firewall of these cases lets no TCP come in, and everything else. */
const meetsFirewallAtInput: Difference = {
  reason: 'requests come to the agent itself: the rules at INPUT decide, not those of FORWARD (F-057)',
  instead: (check) => {
    if (check.kind === 'http')
      return [{ kind: 'flow', from: check.from, to: { ...check.to, protocol: 'TCP' }, expect: dropped }]
    if (check.kind !== 'flow') return [check]
    if (check.to.protocol === 'TCP') return [{ ...check, expect: dropped }]
    const by = [server('a0', familyOf(check.to.address), targetPort)]
    return [
      check.expect.kind === 'dropped' ? { ...check, expect: { kind: 'answer', by, sees: 'node' } } : check,
    ]
  },
}

/** By the names of cases. */
export const userspaceDifferences: Differences = {
  'a port that the Service does not have is not translated': refusesUnused,
  'the same number in a protocol that the Service does not have is not translated': refusesUnused,
  'a Service without a slice refuses': refusesTheNode,
  'a Service whose endpoints are not ready refuses': refusesTheNode,
  'a Service without endpoints refuses under policy Local too': refusesTheNode,
  'addresses and networks with leading zeros mean what people meant': cannotDrop,
  'without an endpoint here, policy Local drops; the node and its pods reach the others': cannotDrop,
  'without a cluster IP, external policy Local has the endpoints here, and drops where there are none':
    cannotDrop,
  'terminating endpoints elsewhere count as endpoints': cannotDrop,
  'internal policy Local without an endpoint here drops, and the outside is served as ever': cannotDrop,
  'policy Local without an endpoint here, where pods cannot be distinguished from outside clients':
    cannotDrop,
  'traffic without an endpoint under policy Local does not leave the node': cannotDrop,
  'a bit that others add to marks at INPUT lets the outside get no further than this node': cannotDrop,
  "a load balancer's source ranges let in who is in them, and guard its addresses alone": cannotDrop,
  'spaces around a source range do not matter': cannotDrop,
  'source ranges of one family leave the other one open': cannotDrop,
  'source ranges may name the node': cannotDrop,
  'source ranges and policy Local go together: who is let in is seen as it is': cannotDrop,
  "on a node that carries the load balancer's address the ranges hold, for the node itself as well":
    cannotDrop,
  'traffic that the source ranges exclude does not leave the node for the balancer itself': cannotDrop,
  'source ranges that are added close the load balancer, and open it again when they go': cannotDrop,
  'a UDP flow under policy Local ends with the last server here, and is served by the next': cannotDrop,
  "an external IP that is a load balancer's address as well, with source ranges": {
    reason: 'the address has one listener, which the source ranges guard (F-056)',
    instead: (check) => {
      const isGuarded = check.kind === 'flow' && check.from !== 'outside'
      return [isGuarded ? { ...check, expect: check.to.protocol === 'TCP' ? reset : dropped } : check]
    },
  },
  'a segment that belongs to no connection: dropped': {
    reason: 'the mode drops no packets that belong to no connection (F-058)',
    instead: (check) => [check.kind === 'stray' ? { ...check, expect: 'arrives' } : check],
  },
  'a node port has its number to itself: without endpoints it refuses, though a server of the node listens there':
    { reason: 'without endpoints the mode does not listen on a node port: the server of the node answers' },
  'what is masqueraded passes a firewall that forwards nothing, with its replies': meetsFirewallAtInput,
  'a pod that is its own server passes as well': meetsFirewallAtInput,
  'what is not masqueraded is the business of that firewall': meetsFirewallAtInput,
  'the health check port is let in': meetsFirewallAtInput,
  'node ports that a firewall closes at INPUT': {
    reason: 'requests come to the agent itself: the rules at INPUT decide on node ports',
    instead: (check) => {
      const isClosed = check.kind === 'flow' && check.to.protocol === 'TCP' && check.to.port >= 30_000
      return [isClosed ? { ...check, expect: dropped } : check]
    },
  },
  "connections, UDP flows and affinity go on over a takeover from kube-proxy's rules": {
    reason: "the mode does not read the clients that kube-proxy's rules of iptables mode remember",
    instead: (check) => (check.kind === 'affinity' ? [] : [check]),
  },
}

/** The agent carries the connections: those of a former process are reset, and its UDP clients get a flow of the new one. */
const endingConnections: ReadonlySet<string> = new Set([
  'established connections and UDP flows go on over a restart of the agent',
  'what changed while no agent ran is in effect after its start, for UDP flows as well',
])

/** Cases of node ports on loopback addresses, in groups with and without ::1 among the addresses of node ports. */
const loopbackCases: ReadonlySet<string> = new Set([
  'a node port answers on 127.0.0.1, never on ::1: policy Cluster',
  'a node port answers on 127.0.0.1, never on ::1: policy Local',
  'a node port does not answer on the loopback',
])

/** The groups as userspace mode has to meet them. */
export function inUserspace(groups: readonly TrafficGroup[]): readonly TrafficGroup[] {
  return groups.map((group) => ({
    ...group,
    cases: group.cases
      .flatMap((row) => caseIn(row, differenceOf(row, group)))
      .map((row) => (endingConnections.has(row.name) ? afterRestart(row, asReset) : row))
      .map((row) => (group.predecessor === undefined ? row : afterRestart(row, withoutIpv6Sessions)))
      .map((row) => seenAsNode(row, group.predecessor === undefined)),
  }))
}

function differenceOf({ name }: TrafficCase, { settings }: TrafficGroup): Difference | undefined {
  if (!loopbackCases.has(name)) return userspaceDifferences[name]
  const { localhostNodePorts = true, nodePortAddresses = [] } = settings
  const ofIpv6 = nodePortAddresses.filter((network) => network.includes(':'))
  const isServed =
    localhostNodePorts &&
    (ofIpv6.length === 0 || ofIpv6.includes('::/0') || nodePortAddresses.includes('localhost'))
  return isServed ? servesLoopback : undefined
}

function afterRestart(row: TrafficCase, instead: (check: Check) => readonly Check[]): TrafficCase {
  const steps = row.steps ?? []
  return {
    ...row,
    steps: steps.map((step, i) => {
      const isAfterRestart = steps.slice(0, i).some(({ do: what }) => what === 'restart')
      return isAfterRestart && 'checks' in step ? { ...step, checks: step.checks.flatMap(instead) } : step
    }),
  }
}

function asReset(check: Check): readonly Check[] {
  return [check.kind === 'ask' && check.to.protocol === 'TCP' ? { ...check, expect: reset } : check]
}

/**
 * The kernel translates the connections of a former mode only while some rule of the family needs connection tracking. In IPv6, no rule is
 * left on this node when those of kube-proxy are gone.
 */
function withoutIpv6Sessions(check: Check): readonly Check[] {
  return check.kind === 'ask' && check.to.address.includes(':') ? [] : [check]
}

/**
 * The agent connects to the endpoints itself: they see the node. Flows that began before the agent, and connections that go past it, keep
 * their source.
 */
function seenAsNode(row: TrafficCase, areSessionsSeen: boolean): TrafficCase {
  const seen = (check: Check): Check => {
    const isThroughRelay = check.kind === 'flow' || (check.kind === 'ask' && areSessionsSeen)
    if (!isThroughRelay || check.expect.kind !== 'answer') return check
    const target = `${check.to.address} ${check.to.port}`
    if (check.expect.by.every((by) => by === target)) return check
    return { ...check, expect: { ...check.expect, sees: 'node' } }
  }
  const inStep = (step: Step): Step => ('checks' in step ? { ...step, checks: step.checks.map(seen) } : step)
  return {
    ...row,
    checks: row.checks.map(seen),
    ...(row.steps === undefined ? {} : { steps: row.steps.map(inStep) }),
  }
}
