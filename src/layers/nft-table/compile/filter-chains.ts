// The chains that refuse connections and record session affinity, at the filter hooks.
import type { IpFamily } from '../../../address.js'
import type { NfSet } from '../../../kernel/index.js'
import { type ChainPlan, type RulePlan, sorted, type StructureUse } from './chain-plan.js'
import {
  drop,
  type Expressions,
  type Field,
  goTo,
  isIn,
  isLocalAddress,
  isNew,
  isNotLoopback,
  isTranslated,
  jump,
  packetFields,
  reject,
  returns,
  sourceNetwork,
  update,
} from './expressions.js'
import { schemaOf } from './schema.js'
import type { NftModeSettings } from './settings.js'

/** Chains that base chains jump to. */
export const checks = {
  nodePortEndpoints: 'nodeport-endpoints-check',
  serviceEndpoints: 'service-endpoints-check',
  /** Only with the semantics of nftables mode. */
  clusterIPs: 'cluster-ips-check',
  /** Only with the semantics of iptables mode. */
  externalEndpoints: 'external-endpoints-check',
  firewall: 'firewall-check',
  affinity: 'session-affinity-update',
  nodePortAffinity: 'session-affinity-nodeports-update',
} as const

export function checkChains(settings: NftModeSettings, use: StructureUse): readonly ChainPlan[] {
  const { family } = settings
  const schema = schemaOf(family)
  const { destination, protocol, port } = packetFields[family]
  return [
    {
      chain: checks.serviceEndpoints,
      rules: refusals(family, schema.services, [[], [destination, protocol, port]]),
    },
    {
      chain: checks.nodePortEndpoints,
      rules: refusals(family, schema.nodePorts, [nodePortAddress(settings), [protocol, port]]),
    },
    settings.semantics === 'iptables'
      ? { chain: checks.externalEndpoints, rules: externalRules(family) }
      : { chain: checks.clusterIPs, rules: clusterIPRules(family) },
    ...firewallChains(family, use),
    ...affinityChains(family, use),
  ]
}

/**
 * Among packets for this node, matches those to an address at which a node port without endpoints refuses. In iptables mode that is
 * every local address, whichever serve node ports.
 */
function nodePortAddress({ family, semantics, nodePortAddresses }: NftModeSettings): Expressions {
  if (semantics === 'iptables') return isLocalAddress('daddr')
  if (nodePortAddresses === 'all') return isNotLoopback(family)
  return isIn(schemaOf(family).nodePortIPs, [packetFields[family].destination])
}

/** F-053, F-054. */
function refusals(
  family: IpFamily,
  { dropped, rejected }: { readonly dropped: NfSet; readonly rejected: NfSet },
  [condition, key]: readonly [Expressions, readonly Field[]],
): readonly RulePlan[] {
  return [
    { expressions: [...condition, ...isIn(dropped, key), ...drop] },
    { expressions: [...condition, ...isIn(rejected, key), ...reject(family)] },
  ]
}

/** For packets to this node: without cluster IPs, which iptables mode does not refuse there. */
function externalRules(family: IpFamily): readonly RulePlan[] {
  const toClusterIP = isIn(schemaOf(family).clusterIPs, [packetFields[family].destination])
  return [{ expressions: [...toClusterIP, ...returns] }, { expressions: goTo(checks.serviceEndpoints) }]
}

/** F-055. */
function clusterIPRules(family: IpFamily): readonly RulePlan[] {
  const { clusterIPs, serviceCidrs } = schemaOf(family)
  const key = [packetFields[family].destination]
  return [
    {
      expressions: [...isIn(clusterIPs, key), ...reject(family)],
      comment: 'Reject traffic to invalid ports of ClusterIPs',
    },
    {
      expressions: [...isIn(serviceCidrs, key), ...drop],
      comment: 'Drop traffic to unallocated ClusterIPs',
    },
  ]
}

const firewall = 'firewall'

/** F-056. A packet meets a lookup per prefix length, regardless of the number of ranges. */
function firewallChains(family: IpFamily, { prefixLengths }: StructureUse): readonly ChainPlan[] {
  const { firewalledServices, allowedSources } = schemaOf(family)
  const { destination, protocol, port } = packetFields[family]
  const key = [destination, protocol, port]
  const allowed = sorted(prefixLengths).map((prefixLength) => ({
    expressions: [
      ...isIn(allowedSources(prefixLength), [...key, sourceNetwork(family, prefixLength)]),
      ...returns,
    ],
  }))
  return [
    {
      chain: checks.firewall,
      rules: [{ expressions: [...isIn(firewalledServices, key), ...goTo(firewall)] }],
    },
    { chain: firewall, rules: [...allowed, { expressions: drop }] },
  ]
}

/**
 * Records the endpoints of new connections, here because translation rules cannot: the endpoint is known only behind them.
 * The frontend is the connection's destination before its translation.
 */
function affinityChains(family: IpFamily, use: StructureUse): readonly ChainPlan[] {
  const { services, nodePorts } = schemaOf(family)
  const fields = packetFields[family]
  const { source, destination, protocol, port, originalDestination, originalPort } = fields
  const serviceKey = [originalDestination, protocol, originalPort]
  const nodePortKey = [protocol, originalPort]
  const record = (map: NfSet, key: readonly Field[], seconds: number): Expressions =>
    update(map, { key: [source, ...key], data: [destination, port], timeoutMs: seconds * 1000 })
  const ofServices = sorted(use.services.affinitySeconds).map((seconds) => [
    ...isIn(services.affinityOf(seconds), serviceKey),
    ...record(services.sessionAffinity, serviceKey, seconds),
  ])
  const ofNodePorts = sorted(use.nodePorts.affinitySeconds).map((seconds) => [
    ...isIn(nodePorts.affinityOf(seconds), nodePortKey),
    ...record(nodePorts.sessionAffinity, nodePortKey, seconds),
  ])
  // A Service's own port may have the number of another Service's node port.
  const toServices = [services.endpoints.all, services.shortCircuit.all].map((set) => [
    ...isIn(set, serviceKey),
    ...returns,
  ])
  return [
    ...chainOf(checks.affinity, ofServices),
    ...chainOf(checks.nodePortAffinity, ofNodePorts.length === 0 ? [] : [...toServices, ...ofNodePorts]),
  ]
}

/** No chain without rules. */
function chainOf(chain: string, rules: readonly Expressions[]): readonly ChainPlan[] {
  return rules.length === 0 ? [] : [{ chain, rules: rules.map((expressions) => ({ expressions })) }]
}

/**
 * The rules of a base chain that lead there. The set of addresses that serve node ports is used here, in a base chain, and not behind
 * it: kube-proxy's nftables mode deletes this set in the transaction of its first sync, where node ports are on all addresses. It deletes
 * the base chains and empties the chains whose names it knows before, and the kernel refuses the whole transaction (EBUSY) if any other
 * chain uses the set.
 */
export function affinityJumps(
  { family, nodePortAddresses }: NftModeSettings,
  { services, nodePorts }: StructureUse,
): readonly Expressions[] {
  const { nodePortIPs } = schemaOf(family)
  const onNode =
    nodePortAddresses === 'all' ? [] : isIn(nodePortIPs, [packetFields[family].originalDestination])
  const isRecorded = [...isNew, ...isTranslated]
  return [
    ...(services.affinitySeconds.size === 0 ? [] : [[...isRecorded, ...jump(checks.affinity)]]),
    ...(nodePorts.affinitySeconds.size === 0
      ? []
      : [[...isRecorded, ...onNode, ...jump(checks.nodePortAffinity)]]),
  ]
}
