// The chains that translate connections to Services, at the nat hooks. Rules of these chains see the first packet of a connection.
import type { NfSet } from '../../../kernel/index.js'
import { type ChainPlan, type FrontendUse, type RulePlan, sorted, type StructureUse } from './chain-plan.js'
import {
  countIs,
  dnatBy,
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
  masquerade,
  packetFields,
  random,
  setMark,
} from './expressions.js'
import { type FrontendSets, schemaOf, shortCircuitOffset } from './schema.js'
import type { NftModeSettings } from './settings.js'

/** Chains that base chains jump to; `masquerading` only with the semantics of nftables mode. */
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
    ...(settings.semantics === 'iptables'
      ? []
      : [{ chain: translations.masquerading, rules: masqueradeRules(settings) }]),
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
    endpoints: one,
    shortCircuit: `short-circuit-${one}-sources`,
    shortCircuitTraffic: `short-circuit-${one}-traffic`,
    shortCircuitEndpoints: `short-circuit-${one}`,
  }
}

/** A packet that belongs to no Service meets the rules of the entry chain only. */
function frontendChains(plan: FrontendPlan): readonly ChainPlan[] {
  const { use, sets, key, chains, masquerades, otherwise } = plan
  const usesShortCircuit = use.shortCircuitCounts.size > 0
  const hasEndpoints = countIs(sets.counts, key, '!=', 0)
  const hasShortCircuit = countIs(sets.shortCircuitCounts, key, '!=', 0)
  const endpoints = endpointChains(plan, {
    counts: use.counts,
    map: sets.counts,
    name: chains.endpoints,
    offset: 0,
  })
  return [
    {
      chain: chains.entry,
      rules: [
        { expressions: [...hasEndpoints, ...goTo(chains.traffic)] },
        // Policy Local requires an endpoint on this node, and there is none: only pods and the node are served.
        ...(usesShortCircuit ? [{ expressions: [...hasShortCircuit, ...goTo(chains.shortCircuit)] }] : []),
        ...otherwise,
      ],
    },
    {
      chain: chains.traffic,
      rules: [
        ...masquerades,
        { expressions: [...isIn(sets.masqueraded, key), ...setMark(plan.settings.masqueradeMark)] },
        ...(usesShortCircuit ? [{ expressions: [...hasShortCircuit, ...jump(chains.shortCircuit)] }] : []),
        ...affinityRules(plan),
        ...endpoints.dispatch,
      ],
    },
    ...endpoints.chains,
    ...(usesShortCircuit ? shortCircuitChains(plan) : []),
  ]
}

/** F-051: with policy Local, pods and the node itself reach the endpoints of the whole cluster. */
function shortCircuitChains(plan: FrontendPlan): readonly ChainPlan[] {
  const { settings, use, sets, chains } = plan
  const { family, localDetector } = settings
  const fromNode = isLocalAddress('saddr')
  const target = goTo(chains.shortCircuitTraffic)
  const fromPods =
    localDetector === undefined
      ? []
      : [
          {
            expressions: [...isFromPod(family, localDetector, '=='), ...target],
            comment: 'short-circuit pod traffic',
          },
        ]
  const endpoints = endpointChains(plan, {
    counts: use.shortCircuitCounts,
    map: sets.shortCircuitCounts,
    name: chains.shortCircuitEndpoints,
    offset: shortCircuitOffset,
  })
  return [
    {
      chain: chains.shortCircuit,
      rules: [
        ...fromPods,
        {
          expressions: [...fromNode, ...setMark(settings.masqueradeMark)],
          comment: 'masquerade local traffic',
        },
        { expressions: [...fromNode, ...target], comment: 'short-circuit local traffic' },
      ],
    },
    { chain: chains.shortCircuitTraffic, rules: [...affinityRules(plan), ...endpoints.dispatch] },
    ...endpoints.chains,
  ]
}

/**
 * A client stays with its endpoint. A client is a pod, the node, or outside, and stays so: it never changes between the two lists
 * of endpoints, and one map serves both.
 */
function affinityRules({ settings, use, sets, key }: FrontendPlan): readonly RulePlan[] {
  if (use.affinitySeconds.size === 0) return []
  return [{ expressions: dnatBy(sets.sessionAffinity, [packetFields[settings.family].source, ...key]) }]
}

interface EndpointPlan {
  readonly counts: ReadonlySet<number>
  /** KEY -> count. */
  readonly map: NfSet
  readonly name: string
  /** Index of the first endpoint. */
  readonly offset: number
}

/** The most counts that one chain compares. A packet meets a rule per bucket, then the rules of its own bucket. */
const bucketSize = 16

/**
 * A chain per number of endpoints, which chooses one of them; `dispatch` leads to it. nft 1.0.6 aborts when it lists a rule
 * that uses the result of a map as a key, so rules compare the count.
 */
function endpointChains(
  { sets, key }: FrontendPlan,
  { counts, map, name, offset }: EndpointPlan,
): { readonly dispatch: readonly RulePlan[]; readonly chains: readonly ChainPlan[] } {
  const inUse = sorted(counts)
  const oneOf = (modulus: number): RulePlan => ({
    expressions: dnatBy(sets.endpoints, [...key, random(modulus, offset)]),
  })
  // The last rule of each chain: a packet may meet the former state of one set and the next state of another, or meet the former
  // count in one rule and the next count in another. Then it gets the first endpoint.
  const first = oneOf(1)
  const choices = inUse.map((count) => ({
    chain: `${name}-${count}`,
    rules: count === 1 ? [first] : [oneOf(count), first],
  }))
  const equals = (count: number): RulePlan => ({
    expressions: [...countIs(map, key, '==', count), ...goTo(`${name}-${count}`)],
  })
  if (inUse.length === 0) return { dispatch: [], chains: [] }
  if (inUse.length <= bucketSize) return { dispatch: [...inUse.map(equals), first], chains: choices }
  const buckets = inUse.flatMap((_, start) =>
    start % bucketSize === 0 ? [inUse.slice(start, start + bucketSize)] : [],
  )
  const bucketName = (index: number): string => `${name}-bucket-${index}`
  return {
    dispatch: [
      ...buckets.map((bucket, index) => ({
        expressions: [...countIs(map, key, '<=', bucket.at(-1) ?? 0), ...goTo(bucketName(index))],
      })),
      first,
    ],
    chains: [
      ...buckets.map((bucket, index) => ({
        chain: bucketName(index),
        rules: [...bucket.map(equals), first],
      })),
      ...choices,
    ],
  }
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

function masqueradeRules({ family, masqueradeMark }: NftModeSettings): readonly RulePlan[] {
  const { source, destination, protocol, port } = packetFields[family]
  const hairpin = isIn(schemaOf(family).hairpinConnections, [source, destination, protocol, port])
  return [
    // The rule clears the mark: a packet that enters the stack once more (a tunnel) must not be masqueraded again.
    { expressions: [...hasMark(masqueradeMark), ...flipMark(masqueradeMark), ...masquerade] },
    { expressions: [...isTranslated, ...hairpin, ...masquerade] },
  ]
}
