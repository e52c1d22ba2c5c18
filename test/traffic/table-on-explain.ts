// The traffic table against the answers of `viaduct explain`: the same objects and settings, without a kernel.
import { familyOf, type IpFamily } from '../../src/address.js'
import { parseArguments } from '../../src/cli/index.js'
import { readConfigFile } from '../../src/config/index.js'
import type { PacketRules } from '../../src/engine/index.js'
import { BugError } from '../../src/errors.js'
import { explainPacket, type Packet, type PacketDecision } from '../../src/inspect/index.js'
import { ServiceCidrs, Tracker } from '../../src/model/index.js'
import { NodeTracker } from '../../src/node/index.js'
import { set } from '../support/objects.js'
import { ip } from '../support/routes.js'
import type { PacketMode } from './packet-modes.js'
import {
  type Check,
  describeCheck,
  describeExpectation,
  flagsOf,
  type Target,
  type TrafficCase,
  type TrafficGroup,
} from './table/case.js'
import { nodeObject } from './table/slot.js'
import {
  addresses,
  elsewhere,
  loopback,
  nodeName,
  type Place,
  podGateway,
  secondNodeAddress,
} from './table/world.js'

/** By which interface node-a gets what a place sends. */
const interfaces: Readonly<Record<Place, string | undefined>> = {
  a0: 'pod0',
  a1: 'pod1',
  a2: 'cbr0',
  b0: 'eth0',
  b1: 'eth0',
  outside: 'eth0',
  neighbour: 'eth1',
  node: undefined,
}

/** Addresses with servers that no Service leads to. */
const ownServers: readonly string[] = [
  '127.0.0.1',
  ...[addresses.node, ...Object.values(elsewhere)].flatMap((pair) => Object.values(pair)),
]
/** Ports on which the servers of the node itself listen. */
const ownPorts: ReadonlySet<number> = new Set([80, 9376, 9377])

/** Checks of one new connection or of several. Others show what explain does not answer: existing connections, or no connection at all. */
export function isExplained(check: Check): boolean {
  return check.kind !== 'stray' && check.kind !== 'http'
}

/** The view of an agent in this mode on node-a, with the objects of one case. */
function viewOf(mode: PacketMode, family: IpFamily, group: TrafficGroup, row: TrafficCase) {
  const invocation = parseArguments(
    ['--manifests=.', `--proxy-mode=${mode.proxyMode}`, ...flagsOf(group.settings)],
    readConfigFile,
  )
  if (!('config' in invocation)) throw new BugError(`the flags of group ${group.name}: ${invocation.text}`)
  const { config } = invocation
  const node = new NodeTracker(nodeName)
  node.apply(set(nodeObject))
  const machine = [loopback, addresses.node, secondNodeAddress, podGateway]
    .flatMap((pair) => Object.values(pair).map((address) => ip(address)))
    .concat((row.nodeAddresses ?? []).map((address) => ip(address)))
    .filter((address) => familyOf(address) === family)
  const { AllowServiceExternalIPs: allowsExternalIPs } = config.featureGates
  const services = new Tracker(family, () => undefined, { allowsExternalIPs })
  const serviceCidrs = new ServiceCidrs(family)
  for (const object of row.objects) {
    if (object.kind === 'Node') node.apply(set(object))
    services.apply(set(object))
    serviceCidrs.apply(set(object))
  }
  const networks = row.objects.flatMap((object) => (object.kind === 'ServiceCIDR' ? object.cidrs : []))
  const rules: PacketRules = mode.rules(family, config, {
    node: node.facts,
    machine,
    serviceCidrs: networks.filter((network) => network.family === family),
  })
  return { services, node: node.facts, rules, machine }
}

/** The checks of a case for which explain says something else than the table, a line each. */
export function differencesOfExplain(
  mode: PacketMode,
  group: TrafficGroup,
  row: TrafficCase,
): readonly string[] {
  const views = new Map<IpFamily, ReturnType<typeof viewOf>>()
  const decide = (from: Place, to: Target): PacketDecision => {
    const packet = packetOf(from, to)
    const family = familyOf(packet.destination)
    const view = views.get(family) ?? viewOf(mode, family, group, row)
    views.set(family, view)
    return explainPacket(packet, view)
  }
  return row.checks.flatMap((check) => {
    const problem = problemOf(check, decide)
    return problem === undefined ? [] : [`${describeCheck(check)}: ${problem}`]
  })
}

function problemOf(check: Check, decide: (from: Place, to: Target) => PacketDecision): string | undefined {
  switch (check.kind) {
    case 'flow':
    case 'ask': {
      const answer = answerOf(decide(check.from, check.to), check)
      const { expect } = check
      const expected =
        expect.kind === 'answer'
          ? expect.by.map((by) => (expect.sees === 'node' ? `${by} masqueraded` : by))
          : [expect.kind]
      return difference(expected, answer, describeExpectation(expect))
    }
    case 'affinity':
      return check.to
        .map((to) => difference(check.by, candidates(decide(check.from, to)), check.by.join(' or ')))
        .find((problem) => problem !== undefined)
    case 'expiry':
      return candidates(decide(check.from, check.to)).length > 1 ? undefined : 'has no second server'
    case 'stray':
    case 'http':
      return undefined
  }
}

function difference(
  expected: readonly string[],
  answer: readonly string[],
  text: string,
): string | undefined {
  return expected.toSorted().join() === answer.toSorted().join()
    ? undefined
    : `expected ${text}; explain says ${answer.join(', ')}`
}

function candidates({ endpoints }: PacketDecision): readonly string[] {
  return endpoints.filter(({ isCandidate }) => isCandidate).map(({ endpoint }) => serverText(endpoint))
}

/** `[fd00::1]:80` as `fd00::1 80`. */
function serverText(endpoint: string): string {
  return endpoint.replace(/^\[?(.*?)\]?:(\d+)$/u, '$1 $2')
}

/** The decision in the words of an expectation. */
function answerOf(decision: PacketDecision, { from, to, expect }: FlowLike): readonly string[] {
  switch (decision.verdict) {
    case 'serve':
      return decision.endpoints
        .filter(({ isCandidate }) => isCandidate)
        .map(({ endpoint, isMasqueraded }) => {
          // The node is its own source: the table has it as kept where nothing is masqueraded.
          const isSeenAsNode =
            isMasqueraded || (from === 'node' && expect.kind === 'answer' && expect.sees === 'node')
          return `${serverText(endpoint)}${isSeenAsNode ? ' masqueraded' : ''}`
        })
    case 'refuse':
      return ['refused']
    case 'drop':
      return ['dropped']
    case 'reset':
      return ['reset']
    case 'untouched':
    case 'health-check':
      return [withoutServices(to)]
  }
}

type FlowLike = Extract<Check, { readonly kind: 'flow' | 'ask' }>

/** The fate of a packet that no Service treats. */
function withoutServices({ address, port }: Target): string {
  if (ownServers.includes(address) && ownPorts.has(port)) return `${address} ${port}`
  const own = [addresses.node, secondNodeAddress, podGateway, loopback].flatMap((pair) => Object.values(pair))
  return own.includes(address) ? 'refused' : 'dropped'
}

function packetOf(from: Place, { protocol, address, port }: Target): Packet {
  const destination = ip(address)
  const family = address.includes(':') ? 'IPv6' : 'IPv4'
  return {
    client: from === 'node' ? 'node' : ip(addresses[from][family]),
    inInterface: interfaces[from],
    destination,
    port,
    protocol: ({ TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const)[protocol],
  }
}
