// The table of the mode without its elements and without the own chains of service ports: sets, chains and rules. They depend on the
// numbers of endpoints and the prefix lengths in use, never on the number of Services.
import type { NfChain, NfRule, NfSet, NfTable, NfTableKey } from '../../../kernel/index.js'
import { type ChainPlan, type FrontendUse, sorted, type StructureUse } from './chain-plan.js'
import { baseChains } from './base-chains.js'
import { checkChains } from './filter-chains.js'
import { hairpinChain } from './hairpin-chain.js'
import { translationChains } from './nat-chains.js'
import { bucketOf, type EndpointSets, type FrontendSets, schemaOf } from './schema.js'
import type { NftModeSettings } from './settings.js'

/** A chain with all of its rules, in order. */
export interface StructureChain {
  readonly chain: NfChain
  readonly rules: readonly NfRule[]
}

export interface Structure {
  readonly table: NfTable
  readonly sets: readonly NfSet[]
  /** Rules jump to chains of any place in the list. No two chains have the same name. */
  readonly chains: readonly StructureChain[]
}

/** All sets, chains and rules for the values in use. The result depends on the arguments alone. */
export function compileStructure(settings: NftModeSettings, use: StructureUse): Structure {
  const { table } = schemaOf(settings.family)
  const chains = [
    ...translationChains(settings, use),
    ...checkChains(settings, use),
    ...(settings.semantics === 'iptables' ? [hairpinChain(settings)] : []),
    ...baseChains(settings),
  ]
  return {
    table: { ...table, comment: 'rules for Services' },
    sets: setsOf(settings, use),
    chains: chains.map((plan) => chainOf(table, plan)),
  }
}

/** The same plan gives the same chain: the comparison of two structures costs what is new. Each plan is of one table. */
const chainsOfPlans = new WeakMap<ChainPlan, StructureChain>()

function chainOf(table: NfTableKey, plan: ChainPlan): StructureChain {
  const { chain, hook, rules } = plan
  const key = { ...table, chain }
  const made = chainsOfPlans.get(plan) ?? {
    chain: hook === undefined ? key : { ...key, hook },
    rules: rules.map((rule) => ({ ...key, ...rule })),
  }
  chainsOfPlans.set(plan, made)
  return made
}

function setsOf(
  { family, semantics, nodePortAddresses }: NftModeSettings,
  use: StructureUse,
): readonly NfSet[] {
  const schema = schemaOf(family)
  return [
    schema.clusterIPs,
    ...(nodePortAddresses === 'all' ? [] : [schema.nodePortIPs]),
    ...(semantics === 'iptables' ? [] : [schema.serviceCidrs, schema.hairpinConnections]),
    ...frontendSetsOf(schema.services, use.services),
    ...frontendSetsOf(schema.nodePorts, use.nodePorts),
    schema.firewalledServices,
    ...sorted(use.prefixLengths).map(schema.allowedSources),
  ]
}

/** Each change finds its sets in a list, in the order in which they were made: those of most changes come first. */
function frontendSetsOf(sets: FrontendSets, use: FrontendUse): readonly NfSet[] {
  const { masqueraded, rejected, dropped } = sets
  const { counts, shortCircuitCounts, ownLists } = use
  return [
    ...endpointSetsOf(sets.endpoints, counts),
    ...endpointSetsOf(sets.shortCircuit, shortCircuitCounts),
    masqueraded,
    rejected,
    dropped,
    ...[...ownLists].flatMap((list) => [sets[list].withOwnChain, sets[list].ownChains]),
  ]
}

function endpointSetsOf(sets: EndpointSets, counts: ReadonlySet<number>): readonly NfSet[] {
  const inUse = sorted(counts)
  const buckets = [...new Set(inUse.map(bucketOf))].filter((bucket) => bucket > 0)
  return [
    sets.all,
    ...buckets.map(sets.inBucket),
    ...inUse.map(sets.withCount),
    ...Array.from({ length: inUse.at(-1) ?? 0 }, (_, index) => sets.endpointAt(index)),
  ]
}
