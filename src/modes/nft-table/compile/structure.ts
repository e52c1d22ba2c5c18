// The table of the mode without its elements: sets, chains and rules. They depend on the numbers of endpoints, the prefix lengths
// and the affinity times in use, never on the number of Services.
import type { NfChain, NfHook, NfRule, NfSet, NfTable, NfTableKey } from '../../../kernel/index.js'
import { type ChainPlan, type FrontendUse, type StructureUse, sorted } from './chain-plan.js'
import { type Expressions, isNew, isTranslated, jump } from './expressions.js'
import { checkChains, checks } from './filter-chains.js'
import { translationChains, translations } from './nat-chains.js'
import { type FrontendSets, schemaOf } from './schema.js'
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
    ...baseChains(hasAffinity(use)),
  ]
  return {
    table: { ...table, comment: 'rules for Services' },
    sets: setsOf(settings, use),
    chains: chains.map((plan) => chainOf(table, plan)),
  }
}

function chainOf(table: NfTableKey, { chain, hook, rules }: ChainPlan): StructureChain {
  const key = { ...table, chain }
  return {
    chain: hook === undefined ? key : { ...key, hook },
    rules: rules.map((rule) => ({ ...key, ...rule })),
  }
}

function setsOf({ family, nodePortAddresses }: NftModeSettings, use: StructureUse): readonly NfSet[] {
  const schema = schemaOf(family)
  return [
    schema.clusterIPs,
    ...(nodePortAddresses === 'all' ? [] : [schema.nodePortIPs]),
    schema.serviceCidrs,
    schema.hairpinConnections,
    ...frontendSetsOf(schema.services, use.services),
    ...frontendSetsOf(schema.nodePorts, use.nodePorts),
    schema.firewalledServices,
    ...sorted(use.prefixLengths).map(schema.allowedSources),
  ]
}

function frontendSetsOf(sets: FrontendSets, { affinitySeconds }: FrontendUse): readonly NfSet[] {
  const { counts, endpoints, shortCircuitCounts, masqueraded, rejected, dropped, sessionAffinity } = sets
  return [
    counts,
    endpoints,
    shortCircuitCounts,
    masqueraded,
    rejected,
    dropped,
    ...(affinitySeconds.size === 0 ? [] : [sessionAffinity]),
    ...sorted(affinitySeconds).map(sets.affinityOf),
  ]
}

function hasAffinity({ services, nodePorts }: StructureUse): boolean {
  return services.affinitySeconds.size + nodePorts.affinitySeconds.size > 0
}

/** kube-proxy's base chains, with its priorities and jumps, and a jump that records session affinity. */
function baseChains(recordsAffinity: boolean): readonly ChainPlan[] {
  const record = recordsAffinity ? [[...isNew, ...isTranslated, ...jump(checks.affinity)]] : []
  const nodePortEndpoints = [...isNew, ...jump(checks.nodePortEndpoints)]
  const serviceEndpoints = [...isNew, ...jump(checks.serviceEndpoints)]
  const clusterIPs = [...isNew, ...jump(checks.clusterIPs)]
  const firewall = [...isNew, ...jump(checks.firewall)]
  const services = [...jump(translations.services)]
  return [
    base('filter-prerouting-pre-dnat', { type: 'filter', hook: 'prerouting', priority: -110 }, [firewall]),
    base('filter-output-pre-dnat', { type: 'filter', hook: 'output', priority: -110 }, [firewall]),
    base('filter-input', { type: 'filter', hook: 'input', priority: 0 }, [
      nodePortEndpoints,
      serviceEndpoints,
      ...record,
    ]),
    base('filter-forward', { type: 'filter', hook: 'forward', priority: 0 }, [
      serviceEndpoints,
      clusterIPs,
      ...record,
    ]),
    base('filter-output', { type: 'filter', hook: 'output', priority: 0 }, [
      serviceEndpoints,
      clusterIPs,
      ...record,
    ]),
    base('nat-prerouting', { type: 'nat', hook: 'prerouting', priority: -100 }, [services]),
    base('nat-output', { type: 'nat', hook: 'output', priority: -100 }, [services]),
    base('nat-postrouting', { type: 'nat', hook: 'postrouting', priority: 100 }, [
      jump(translations.masquerading),
    ]),
  ]
}

function base(chain: string, hook: NfHook, rules: readonly Expressions[]): ChainPlan {
  return { chain, hook, rules: rules.map((expressions) => ({ expressions })) }
}
