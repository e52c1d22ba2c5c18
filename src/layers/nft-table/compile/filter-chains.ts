// The chains that refuse connections, at the filter hooks.
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
  isNotLoopback,
  packetFields,
  reject,
  returns,
  sourceNetwork,
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
