// The traffic table above the kernel: objects through the rooms up to compiled rules, then packets through the packet model.
import { familyOf, type IpAddress, type IpFamily } from '../../src/address.js'
import { parseArguments } from '../../src/cli/index.js'
import { readConfigFile } from '../../src/config/index.js'
import { BugError } from '../../src/errors.js'
import type { Protocol } from '../../src/kernel/index.js'
import type { ServicePortKey } from '../../src/model/index.js'
import { trackFamily, type TrackedFamily } from '../support/tracked-family.js'
import { NodeTracker } from '../../src/node/index.js'
import { type Route, route } from '../../src/routing/index.js'
import type { KubernetesObject } from '../../src/source/index.js'
import { iptablesSettings } from '../../src/modes/iptables/node-settings.js'
import { set } from '../support/objects.js'
import {
  type ModelNode,
  type ModelTables,
  type Outcome,
  type RecentLists,
  walk,
} from '../support/packet-model.js'
import { tablesOf } from '../support/packet-model-tables.js'
import { ip } from '../support/routes.js'
import {
  type AffinityCheck,
  type AskCheck,
  type Check,
  describeCheck,
  describeExpectation,
  type ExpiryCheck,
  flagsOf,
  type FlowCheck,
  type HttpCheck,
  type StrayCheck,
  type Target,
  type TrafficCase,
  type TrafficGroup,
} from './table/case.js'
import { nodeObject } from './table/slot.js'
import {
  addresses,
  elsewhere,
  families,
  inInterfaces,
  loopback,
  nodeName,
  type Place,
  podGateway,
  secondNodeAddress,
} from './table/world.js'

const protocols: Readonly<Record<FlowCheck['to']['protocol'], Protocol>> = {
  TCP: 'tcp',
  UDP: 'udp',
  SCTP: 'sctp',
}
/** Addresses with servers that no Service leads to; at any other address, untranslated packets meet no server. */
const ownServers: readonly string[] = [
  '127.0.0.1',
  ...[addresses.node, ...Object.values(elsewhere)].flatMap((pair) => Object.values(pair)),
]

/** A chance in the kernel's 31 bits, several of them multiplied. */
const chanceError = 1e-6

/** Health checks are servers of the agent, not rules. */
export type ModelCheck = Exclude<Check, HttpCheck>

/** The checks of a case that the model can show: what holds before anything changes. */
function modelChecks(row: TrafficCase): readonly ModelCheck[] {
  return row.checks.filter((check) => check.kind !== 'http')
}

/** Two Services that want the same frontend are settled by the ledger (ADR 7), which is not part of the model. */
export function isOnModel(row: TrafficCase): boolean {
  return !row.rules.includes('ADR 7') && modelChecks(row).length > 0
}

/** The failures of a case's checks in the model, a line each. `changed` may give them other tables than those of the mode. */
export function failuresOnModel(
  group: TrafficGroup,
  row: TrafficCase,
  changed: (tables: ModelTables) => ModelTables = (tables) => tables,
): readonly string[] {
  const tables = new Map<IpFamily, ModelTables>()
  const node: ModelNode = {
    addresses: [addresses.node, secondNodeAddress, podGateway]
      .flatMap((pair) => families.map((family) => ip(pair[family])))
      .concat((row.nodeAddresses ?? []).map((address) => ip(address))),
    forwardPolicy: group.node?.firewall?.includes('-P FORWARD DROP') === true ? 'drop' : 'accept',
  }
  return modelChecks(row).flatMap((check) => {
    const family = familyOf(ip(targetsOf(check)[0]?.address ?? ''))
    const familyTables = tables.get(family) ?? changed(compiled(family, group, row.objects))
    tables.set(family, familyTables)
    const problem = problemOf(check, familyTables, node)
    return problem === undefined ? [] : [`${describeCheck(check)}: ${problem}`]
  })
}

function targetsOf(check: ModelCheck): readonly { readonly address: string }[] {
  return check.kind === 'affinity' ? check.to : [check.to]
}

function problemOf(check: ModelCheck, tables: ModelTables, node: ModelNode): string | undefined {
  switch (check.kind) {
    case 'flow':
    case 'ask':
      return flowProblem(check, tables, node)
    case 'affinity':
      return affinityProblem(check, tables, node)
    case 'expiry':
      return expiryProblem(check, tables, node)
    case 'stray':
      return strayProblem(check, tables, node)
  }
}

/** The tables of this family, as all rooms above the kernel make them. */
function compiled(family: IpFamily, group: TrafficGroup, objects: readonly KubernetesObject[]): ModelTables {
  const invocation = parseArguments(
    ['--manifests=.', '--proxy-mode=iptables', ...flagsOf(group.settings)],
    readConfigFile,
  )
  if (!('config' in invocation)) throw new BugError(`the flags of group ${group.name}: ${invocation.text}`)
  const node = new NodeTracker(nodeName)
  node.apply(set(nodeObject))
  const settings = iptablesSettings(family, invocation.config, {
    node: node.facts,
    machine: [loopback, addresses.node, secondNodeAddress, podGateway]
      .flatMap((pair) => Object.values(pair).map((address) => ip(address)))
      .filter((address) => familyOf(address) === family),
    dropsInvalid: group.node?.sysctls?.includes('net.netfilter.nf_conntrack_tcp_be_liberal=1') !== true,
    withComments: true,
  })
  const { AllowServiceExternalIPs: allowsExternalIPs } = invocation.config.featureGates
  const tracker = trackFamily(family, () => undefined, { allowsExternalIPs })
  for (const object of objects) tracker.apply(set(object))
  return tablesOf(routesOf(tracker, node), settings)
}

function routesOf(tracker: TrackedFamily, node: NodeTracker): readonly Route[] {
  return [...tracker.take()].flatMap((key: ServicePortKey) => {
    const port = tracker.servicePort(key)
    return port === undefined ? [] : [route(port, tracker.endpoints(port), node.facts)]
  })
}

/** Every server answers as often as any other (F-045). */
function flowProblem(check: FlowCheck | AskCheck, tables: ModelTables, node: ModelNode): string | undefined {
  const { expect } = check
  const seen = new Map<string, number>()
  for (const outcome of walk(tables, node, packetOf(check, node))) {
    const meets = meeting(outcome, node)
    seen.set(meets, (seen.get(meets) ?? 0) + outcome.probability)
  }
  const expected = expect.kind === 'answer' ? answers(check) : [expect.kind]
  const isRight = [...seen.keys()].toSorted().join() === [...expected].toSorted().join()
  const isEven = [...seen.values()].every((chance) => Math.abs(chance - 1 / seen.size) < chanceError)
  if (isRight && isEven) return undefined
  const chances = [...seen].map(([meets, chance]) => `${meets} (${chance.toFixed(4)})`)
  return `expected ${describeExpectation(expect)}; the model says ${chances.join(', ')}`
}

/** Wherever a new client is sent by any of the targets, every target sends it there from then on. */
function affinityProblem(check: AffinityCheck, tables: ModelTables, node: ModelNode): string | undefined {
  const servers = new Set<string>()
  for (const to of check.to) {
    for (const outcome of walk(tables, node, packetOf({ from: check.from, to }, node))) {
      const server = serverOf(outcome)
      servers.add(server)
      const later = check.to.flatMap((again) => {
        const known = { ...node, recent: rememberedBy({ from: check.from, to: again }, outcome, node, 0) }
        return walk(tables, known, packetOf({ from: check.from, to: again }, node)).map(serverOf)
      })
      if (later.some((other) => other !== server))
        return `a client of ${server} later meets ${[...new Set(later)].join(', ')}`
    }
  }
  const isRight = [...servers].toSorted().join() === [...check.by].toSorted().join()
  return isRight ? undefined : `expected ${check.by.join(', ')}; the model says ${[...servers].join(', ')}`
}

/** After the pause a client may reach any server again. */
function expiryProblem(check: ExpiryCheck, tables: ModelTables, node: ModelNode): string | undefined {
  const packet = packetOf(check, node)
  const all = walk(tables, node, packet)
  const [first] = all
  if (first === undefined) return 'the model knows no outcome'
  const recent = rememberedBy(check, first, node, check.pauseMs / 1000)
  const later = walk(tables, { ...node, recent }, packet)
  return later.length === all.length && all.length > 1
    ? undefined
    : `of ${all.length} servers the model has ${later.length} after the pause`
}

/** A segment of no connection, on its way through the node. */
function strayProblem(
  { from, to, expect }: StrayCheck,
  tables: ModelTables,
  node: ModelNode,
): string | undefined {
  const packet = packetOf({ from, to: { protocol: 'TCP', ...to } }, node)
  const verdicts = walk(tables, node, { ...packet, state: 'invalid' }).map(({ verdict }) => verdict)
  const isRight = verdicts.every((verdict) => verdict === (expect === 'arrives' ? 'accept' : 'drop'))
  return isRight ? undefined : `expected: ${expect}; the model says ${verdicts.join(', ')}`
}

function serverOf({ address, port }: Outcome): string {
  return `${address} ${port}`
}

/** The lists that the first packet of this client was entered into, so many seconds later. */
function rememberedBy(asker: Asker, { remembered }: Outcome, node: ModelNode, seconds: number): RecentLists {
  const { source } = packetOf(asker, node)
  return new Map(remembered.map((list) => [list, new Map([[source, seconds]])]))
}

interface Asker {
  readonly from: Place
  readonly to: Target
}

function packetOf({ from, to }: Asker, node: ModelNode): Parameters<typeof walk>[2] {
  const destination = ip(to.address)
  return {
    inInterface: inInterfaces[from],
    source: sourceOf(from, destination, node),
    destination,
    protocol: protocols[to.protocol],
    destinationPort: to.port,
  }
}

/** The own address of a socket of this place: on the node, a local destination is its own source. */
function sourceOf(from: Place, destination: IpAddress, node: ModelNode): IpAddress {
  const isOwn = node.addresses.includes(destination) || ['127.0.0.1', '::1'].includes(destination)
  if (from === 'node' && isOwn) return destination
  return ip(addresses[from][destination.includes(':') ? 'IPv6' : 'IPv4'])
}

/** An outcome in the words of an expectation. */
function meeting(outcome: Outcome, node: ModelNode): string {
  if (outcome.verdict !== 'accept') return outcome.verdict === 'reject' ? 'refused' : 'dropped'
  const isToNode = node.addresses.includes(outcome.address) || outcome.address === '::1'
  const hasServer = outcome.isTranslated || (ownServers.includes(outcome.address) && outcome.port < 30_000)
  if (hasServer) return `${outcome.address} ${outcome.port}${outcome.isMasqueraded ? ' masqueraded' : ''}`
  // No server listens there: a node refuses; packets to a virtual address are lost.
  return isToNode || outcome.address === '127.0.0.1' ? 'refused' : 'dropped'
}

function answers({ expect }: FlowCheck | AskCheck): readonly string[] {
  if (expect.kind !== 'answer') return []
  return expect.by.map((server) => (expect.sees === 'node' ? `${server} masqueraded` : server))
}
