// The traffic table above the kernel: objects through the rooms up to compiled rules, then packets through the packet model.
import { familyOf, type IpAddress, type IpFamily } from '../../src/address.js'
import { parseArguments } from '../../src/cli/index.js'
import { BugError } from '../../src/errors.js'
import type { Protocol } from '../../src/kernel/index.js'
import { type ServicePortKey, Tracker } from '../../src/model/index.js'
import { NodeTracker } from '../../src/node/index.js'
import { type Route, route } from '../../src/routing/index.js'
import type { KubernetesObject } from '../../src/source/index.js'
import { iptablesSettings } from '../../src/sync/iptables-settings.js'
import { set } from '../support/objects.js'
import { type ModelNode, type Outcome, walk } from '../support/packet-model.js'
import { tablesOf } from '../support/packet-model-tables.js'
import { ip } from '../support/routes.js'
import {
  describeCheck,
  describeExpectation,
  flagsOf,
  type FlowCheck,
  type TrafficCase,
  type TrafficGroup,
} from './table/case.js'
import { nodeObject } from './table/slot.js'
import { addresses, families, nodeName, type Place, podGateway, secondNodeAddress } from './table/world.js'

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
const protocols: Readonly<Record<FlowCheck['to']['protocol'], Protocol>> = {
  TCP: 'tcp',
  UDP: 'udp',
  SCTP: 'sctp',
}
/** Addresses on which node-a has servers of its own; to any other, what is not translated meets nobody. */
const ownServers: readonly string[] = ['127.0.0.1', ...Object.values(addresses.node)]

type Tables = ReturnType<typeof tablesOf>

/** What the flow checks of a case meet in the model: a line for each that does not hold. */
export function failuresOnModel(group: TrafficGroup, row: TrafficCase): readonly string[] {
  const flows = row.checks.filter((check) => check.kind === 'flow')
  const tables = new Map<IpFamily, Tables>()
  const node: ModelNode = {
    addresses: [addresses.node, secondNodeAddress, podGateway]
      .flatMap((pair) => families.map((family) => ip(pair[family])))
      .concat((row.nodeAddresses ?? []).map((address) => ip(address))),
    forwardPolicy: group.node?.firewall?.includes('-P FORWARD DROP') === true ? 'drop' : 'accept',
  }
  return flows.flatMap((check) => {
    const family = familyOf(ip(check.to.address))
    const familyTables = tables.get(family) ?? compiled(family, group, row.objects)
    tables.set(family, familyTables)
    const problem = flowProblem(check, familyTables, node)
    return problem === undefined ? [] : [`${describeCheck(check)}: ${problem}`]
  })
}

/** The tables of this family, as all rooms above the kernel make them. */
function compiled(family: IpFamily, group: TrafficGroup, objects: readonly KubernetesObject[]): Tables {
  const invocation = parseArguments(['--manifests=.', '--proxy-mode=iptables', ...flagsOf(group.settings)])
  if (!('config' in invocation)) throw new BugError(`the flags of group ${group.name}: ${invocation.text}`)
  const node = new NodeTracker(nodeName)
  node.apply(set(nodeObject))
  const settings = iptablesSettings(family, invocation.config, {
    node: node.facts,
    machine: [addresses.node, secondNodeAddress, podGateway]
      .flatMap((pair) => Object.values(pair).map((address) => ip(address)))
      .filter((address) => familyOf(address) === family),
    dropsInvalid: true,
    withComments: true,
  })
  const tracker = new Tracker(family, () => undefined)
  for (const object of objects) tracker.apply(set(object))
  return tablesOf(routesOf(tracker, node), settings)
}

function routesOf(tracker: Tracker, node: NodeTracker): readonly Route[] {
  return [...tracker.take()].flatMap((key: ServicePortKey) => {
    const port = tracker.servicePort(key)
    return port === undefined ? [] : [route(port, tracker.endpoints(port), node.facts)]
  })
}

function flowProblem(check: FlowCheck, tables: Tables, node: ModelNode): string | undefined {
  const outcomes = walk(tables, node, packetOf(check, node))
  const { expect } = check
  const seen = outcomes.map((outcome) => meeting(outcome, node))
  const expected = expect.kind === 'answer' ? answers(check) : [expect.kind]
  const isRight = [...new Set(seen)].toSorted().join() === [...expected].toSorted().join()
  return isRight ? undefined : `expected ${describeExpectation(expect)}; the model says ${seen.join(', ')}`
}

function packetOf({ from, to }: FlowCheck, node: ModelNode): Parameters<typeof walk>[2] {
  const destination = ip(to.address)
  return {
    inInterface: interfaces[from],
    source: sourceOf(from, destination, node),
    destination,
    protocol: protocols[to.protocol],
    destinationPort: to.port,
  }
}

/** What a socket of this place gets as its own address: on the node, a local destination is its own source. */
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
  // Nobody listens there: a node refuses, what was meant for a virtual address is lost.
  return isToNode || outcome.address === '127.0.0.1' ? 'refused' : 'dropped'
}

function answers({ expect }: FlowCheck): readonly string[] {
  if (expect.kind !== 'answer') return []
  return expect.by.map((server) => (expect.sees === 'node' ? `${server} masqueraded` : server))
}
