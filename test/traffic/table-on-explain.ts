// The traffic table against the answers of `viaduct explain`: the same objects and settings, without a kernel.
import { familyOf, type IpFamily } from '../../src/address.js'
import { parseArguments } from '../../src/cli/index.js'
import { readConfigFile } from '../../src/config/index.js'
import type { PacketRules } from '../../src/engine/index.js'
import { BugError } from '../../src/errors.js'
import { explainPacket, type Packet } from '../../src/inspect/testing.js'
import { withOwners } from '../support/frontend-owners.js'
import { trackFamily } from '../support/tracked-family.js'
import { NodeTracker } from '../../src/node/index.js'
import { set } from '../support/objects.js'
import { ip } from '../support/routes.js'
import { type Answer, explainProblem } from './explain-checks.js'
import type { PacketMode } from './packet-modes.js'
import { flagsOf, type TrafficCase, type TrafficGroup } from './table/case.js'
import { nodeObject } from './table/slot.js'
import { addresses, loopback, nodeName, podGateway, secondNodeAddress } from './table/world.js'

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
  const services = trackFamily(family, () => undefined, { allowsExternalIPs })
  for (const object of row.objects) {
    if (object.kind === 'Node') node.apply(set(object))
    services.apply(set(object))
  }
  const networks = row.objects.flatMap((object) => (object.kind === 'ServiceCIDR' ? object.cidrs : []))
  const rules: PacketRules = mode.rules(family, config, {
    node: node.facts,
    machine,
    serviceCidrs: networks.filter((network) => network.family === family),
  })
  return withOwners({ services, node: node.facts, rules, machine })
}

/** The checks of a case for which explain says something else than the table, a line each. */
export async function differencesOfExplain(
  mode: PacketMode,
  group: TrafficGroup,
  row: TrafficCase,
): Promise<readonly string[]> {
  const views = new Map<IpFamily, ReturnType<typeof viewOf>>()
  const explain = (packet: Packet): Promise<Answer> => {
    const family = familyOf(packet.destination)
    const view = views.get(family) ?? viewOf(mode, family, group, row)
    views.set(family, view)
    return Promise.resolve(explainPacket(packet, view))
  }
  // The first requests of a session are those of a client of the former kube-proxy.
  const checks = row.checks.filter(({ kind }) => group.predecessor === undefined || kind !== 'ask')
  const problems = await Promise.all(checks.map((check) => explainProblem(check, explain)))
  return problems.filter((problem) => problem !== undefined)
}
