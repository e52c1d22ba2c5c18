// The chains that translate connections to Services, at the nat hooks. Rules of these chains see the first packet of a connection.
import type { ChainPlan, FrontendUse, RulePlan, StructureUse } from './chain-plan.js'
import {
  type Expressions,
  type Field,
  flipMark,
  goTo,
  hasMark,
  isFromPod,
  isIn,
  isLocalAddress,
  isNotLoopback,
  isTranslated,
  jump,
  leadBy,
  masquerade,
  packetFields,
  setMark,
} from './expressions.js'
import { endpointChains } from './endpoint-chains.js'
import { type FrontendSets, schemaOf } from './schema.js'
import type { NftModeSettings } from './settings.js'

/** Chains that base chains jump to. */
export const translations = { services: 'services', masquerading: 'masquerading' } as const

const nodePortsChain = 'nodeports'

export function translationChains(settings: NftModeSettings, use: StructureUse): readonly ChainPlan[] {
  const { family } = settings
  const schema = schemaOf(family)
  const { destination, protocol, port } = packetFields[family]
  return [
    ...frontendChains({
      settings,
      use: use.services,
      sets: schema.services,
      key: [destination, protocol, port],
      chains: chainNames(translations.services, 'service'),
      masquerades: clusterIPMasquerade(settings),
      // The last rule: a frontend with an address comes first.
      otherwise: [{ expressions: [...nodePortAddress(settings), ...goTo(nodePortsChain)] }],
    }),
    ...frontendChains({
      settings,
      use: use.nodePorts,
      sets: schema.nodePorts,
      key: [protocol, port],
      chains: chainNames(nodePortsChain, 'nodeport'),
      masquerades: [],
      otherwise: [],
    }),
    { chain: translations.masquerading, rules: masqueradeRules(settings) },
  ]
}

/** The chains of one kind of frontend. */
interface FrontendPlan {
  readonly settings: NftModeSettings
  readonly use: FrontendUse
  readonly sets: FrontendSets
  readonly key: readonly Field[]
  readonly chains: ReturnType<typeof chainNames>
  /** Rules for packets of connections to any frontend with endpoints. */
  readonly masquerades: readonly RulePlan[]
  /** Rules for packets to no frontend with endpoints. */
  readonly otherwise: readonly RulePlan[]
}

/** Only the first is a name that kube-proxy uses too. */
function chainNames(entry: string, one: string) {
  return {
    entry,
    traffic: `${one}-traffic`,
    shortCircuit: `short-circuit-${one}-sources`,
    shortCircuitTraffic: `short-circuit-${one}-traffic`,
    ownTraffic: `own-${one}-traffic`,
    ownShortCircuit: `short-circuit-own-${one}-sources`,
    ownShortCircuitTraffic: `short-circuit-own-${one}-traffic`,
  }
}

/** A packet that belongs to no Service meets the rules of the entry chain only. */
function frontendChains(plan: FrontendPlan): readonly ChainPlan[] {
  const { use, sets, key, chains, masquerades } = plan
  const usesShortCircuit = use.shortCircuitCounts.size > 0
  const hasEndpoints = isIn(sets.endpoints.all, key)
  const hasShortCircuit = isIn(sets.shortCircuit.all, key)
  const endpoints = endpointChains({ key, counts: use.counts, sets: sets.endpoints })
  return [
    {
      chain: chains.entry,
      rules: [
        { expressions: [...hasEndpoints, ...goTo(chains.traffic)] },
        // Policy Local requires an endpoint on this node, and there is none: only pods and the node are served.
        ...(usesShortCircuit ? [{ expressions: [...hasShortCircuit, ...goTo(chains.shortCircuit)] }] : []),
        ...toOwnChains(plan),
        ...plan.otherwise,
      ],
    },
    {
      chain: chains.traffic,
      rules: [
        ...masquerades,
        { expressions: [...isIn(sets.masqueraded, key), ...setMark(plan.settings.masqueradeMark)] },
        ...(usesShortCircuit ? [{ expressions: [...hasShortCircuit, ...jump(chains.shortCircuit)] }] : []),
        ...endpoints.dispatch,
      ],
    },
    ...endpoints.chains,
    ...(usesShortCircuit ? shortCircuitChains(plan) : []),
    ...ownTrafficChains(plan),
  ]
}

/** The rules of the entry chain for frontends with own chains. Packets to others that have endpoints do not meet them. */
function toOwnChains({ use: { ownLists }, sets, key, chains }: FrontendPlan): readonly RulePlan[] {
  const rule = (set: Parameters<typeof isIn>[0], chain: string): RulePlan => ({
    expressions: [...isIn(set, key), ...goTo(chain)],
  })
  return [
    ...(ownLists.has('endpoints') ? [rule(sets.endpoints.withOwnChain, chains.ownTraffic)] : []),
    ...(ownLists.has('shortCircuit') ? [rule(sets.shortCircuit.withOwnChain, chains.ownShortCircuit)] : []),
  ]
}

/** As `traffic` and the chains behind it, for frontends with own chains: a verdict map leads to the chain of the service port. */
function ownTrafficChains(plan: FrontendPlan): readonly ChainPlan[] {
  const { settings, sets, key, chains, masquerades } = plan
  const { ownLists } = plan.use
  const { ownShortCircuit: sources, ownShortCircuitTraffic: traffic } = chains
  const usesShortCircuit = ownLists.has('shortCircuit')
  const hasShortCircuit = isIn(sets.shortCircuit.withOwnChain, key)
  return [
    ...(ownLists.has('endpoints')
      ? [
          {
            chain: chains.ownTraffic,
            rules: [
              ...masquerades,
              { expressions: [...isIn(sets.masqueraded, key), ...setMark(settings.masqueradeMark)] },
              ...(usesShortCircuit ? [{ expressions: [...hasShortCircuit, ...jump(sources)] }] : []),
              { expressions: leadBy(sets.endpoints.ownChains, key) },
            ],
          },
        ]
      : []),
    ...(usesShortCircuit
      ? [
          { chain: sources, rules: sourceRules(settings, traffic) },
          { chain: traffic, rules: [{ expressions: leadBy(sets.shortCircuit.ownChains, key) }] },
        ]
      : []),
  ]
}

/** F-051: with policy Local, pods and the node itself reach the endpoints of the whole cluster. */
function shortCircuitChains({ settings, use, sets, key, chains }: FrontendPlan): readonly ChainPlan[] {
  const endpoints = endpointChains({ key, counts: use.shortCircuitCounts, sets: sets.shortCircuit })
  return [
    { chain: chains.shortCircuit, rules: sourceRules(settings, chains.shortCircuitTraffic) },
    { chain: chains.shortCircuitTraffic, rules: endpoints.dispatch },
    ...endpoints.chains,
  ]
}

/** Packets of pods and of the node itself go to the chain. */
function sourceRules(settings: NftModeSettings, chain: string): readonly RulePlan[] {
  const { family, localDetector } = settings
  const fromNode = isLocalAddress('saddr')
  const target = goTo(chain)
  const fromPods =
    localDetector === undefined
      ? []
      : [
          {
            expressions: [...isFromPod(family, localDetector, '=='), ...target],
            comment: 'short-circuit pod traffic',
          },
        ]
  return [
    ...fromPods,
    { expressions: [...fromNode, ...setMark(settings.masqueradeMark)], comment: 'masquerade local traffic' },
    { expressions: [...fromNode, ...target], comment: 'short-circuit local traffic' },
  ]
}

/** F-047, F-048. */
function clusterIPMasquerade(settings: NftModeSettings): readonly RulePlan[] {
  const { family, masqueradeAll, localDetector, masqueradeMark } = settings
  const toClusterIP = isIn(schemaOf(family).clusterIPs, [packetFields[family].destination])
  const mark = setMark(masqueradeMark)
  if (masqueradeAll)
    return [{ expressions: [...toClusterIP, ...mark], comment: 'masquerade all clusterIP traffic' }]
  if (localDetector === undefined) return []
  return [
    {
      expressions: [...toClusterIP, ...isFromPod(family, localDetector, '!='), ...mark],
      comment: 'masquerade clusterIP traffic from outside cluster',
    },
  ]
}

/** Addresses that serve node ports. */
function nodePortAddress({ family, nodePortAddresses, localhostNodePorts }: NftModeSettings): Expressions {
  if (nodePortAddresses === 'all')
    return [...isLocalAddress('daddr'), ...(localhostNodePorts ? [] : isNotLoopback(family))]
  return isIn(schemaOf(family).nodePortIPs, [packetFields[family].destination])
}

function masqueradeRules({ family, semantics, masqueradeMark }: NftModeSettings): readonly RulePlan[] {
  const { source, destination, protocol, port } = packetFields[family]
  const hairpin = isIn(schemaOf(family).hairpinConnections, [source, destination, protocol, port])
  return [
    // The rule clears the mark: a packet that enters the stack once more (a tunnel) must not be masqueraded again.
    { expressions: [...hasMark(masqueradeMark), ...flipMark(masqueradeMark), ...masquerade] },
    // With the semantics of iptables mode, hairpins have the mark.
    ...(semantics === 'iptables' ? [] : [{ expressions: [...isTranslated, ...hairpin, ...masquerade] }]),
  ]
}
